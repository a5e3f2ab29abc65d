// SPDX-License-Identifier: Apache-2.0
// A messenger's side of the exchange with one peer: what is posted, what arrived early, credits,
// and what waits for room in the link.
//
// Credits: both ends start with the same number. An eager frame without the flag costs its sender
// one; the receiver gives it back once the message has met its receive, in the header of any frame.
//
// Starvation: a sender without credit says STARVED once. Until the next eager frame that cost a
// credit, the receiver clears every small receive that is posted and unmatched, then and later.
// Frames arrive in order, so both ends agree on when that period ends; clear-to-sends kept from it
// are dropped then, since the peer will repeat them on the next STARVED.
//
// Pieces: a large message is written in pieces of TransportLimits::max_write_bytes (the last one is
// the rest), and there is a clear-to-send with a slice for each. Frames arrive in order, so these
// are the pieces from the first to the last. At most kMaxPieces of them are exposed at a time.
//
// Listening: a rank that receives from any other says LISTENING once, on every link. Its peers then
// send PENDING for each point-to-point message that has to wait, so that the rank learns of it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "base/intrusive_list.h"
#include "messenger/message_table.h"
#include "messenger/message_wire.h"
#include "messenger/messenger_core.h"
#include "messenger/operation_history.h"

namespace rocecoll {

class PeerChannel {
 public:
  PeerChannel(MessengerCore& core, Rank peer);

  void send(Instant now, const Tag& tag, const Fingerprint& fingerprint, LocalSlice from,
            uint64_t token);
  void recv(Instant now, const Tag& tag, const Fingerprint& fingerprint, LocalSlice into,
            uint64_t token);
  // Opens the link, unless the peer is gone, and says LISTENING.
  void listen(Instant now);
  // Opens the link because the peer does, unless it is or was open.
  void accept(Instant now);
  // Messenger::send_retire(). Also true if the peer is gone.
  bool send_retire(bool answer, std::span<const TagRun> runs);
  void on_frame(std::span<const std::byte> bytes);
  void on_written(uint32_t index);
  void on_landed(uint32_t index);
  void on_down();
  void on_left();
  // Sends what waits for room or is due. False if something still waits for room.
  bool flush();
  // Queues a PENDING frame, which tells the peer that we wait for `message`.
  void announce(Message& message);
  void close(const Status& why);
  // Messenger::has_left().
  bool has_left(uint64_t frame) {
    if (frame > left_) left_ = std::max(left_, accepted_ - unsent_frames());
    return frame <= left_;
  }

  Rank peer() const { return peer_; }
  Link* link() const { return link_; }
  // Whether something posted, or the program, waits for the peer.
  bool waits() {
    return link_ != nullptr && (posted_ > 0 || listening_ || !has_left(last_unsent_));
  }
  bool dirty = false;  // kept by mark_dirty() and the messenger

 private:
  using WaitingList = IntrusiveList<Message, &Message::waiting>;
  // More than an engine has collectives in flight by default; those not reached are kept beside
  // these.
  static constexpr size_t kRecentOfPeer = 16;
  // Enough to keep the link busy while the news that one has landed is on its way.
  static constexpr uint32_t kMaxPieces = 8;

  // -- posting (peer_channel.cc)
  bool ready(Instant now);
  // False after a failure: the peer has called something else as this operation.
  bool note_posted(const Tag& tag, const Fingerprint& fingerprint);
  Message& post(MessageRole role, Instant now, const Tag& tag, const Fingerprint& fingerprint,
                LocalSlice memory, uint64_t token);
  void complete(Message& message, uint64_t frame = 0);
  void end_link(const Status& why, const Status& told);
  uint64_t unsent_frames() const;
  uint64_t frame_to_leave();
  uint64_t next_piece_bytes(const Message& message) const;
  void send_cleared_early(const Tag& tag, Message& early);
  void receive_unexpected(Message& unexpected, const Fingerprint& fingerprint, LocalSlice into,
                          uint64_t token);

  // -- sending (peer_channel.cc)
  bool pump();
  bool pump_frames();
  bool pump_writes();
  bool send_frame(MessageFrame& frame);
  bool send_eager(const Tag& tag, const Fingerprint& fingerprint, LocalSlice from, bool cleared);
  bool send_control(Message& message);
  bool clear_pieces(Message& message);
  bool must_return_credits() const;
  void end_starvation();
  void mark_dirty();
  bool must_announce(const Message& message) const;
  bool say_listening();

  // -- receiving (peer_channel_receive.cc)
  bool check_operation(const MessageFrame& frame);
  bool check_match(const Message& ours, const MessageFrame& frame);
  void fail_mismatch(const Tag& tag, const Fingerprint& ours, uint64_t our_bytes,
                     const Fingerprint& theirs, uint64_t their_bytes);
  void fail_protocol(const char* what);
  void on_eager(const MessageFrame& frame);
  void keep_unexpected(const MessageFrame& frame);
  void on_clear_to_send(const MessageFrame& frame);
  void keep_cleared(const MessageFrame& frame);
  // False, after a failure, if this cannot be the slice of the message's next piece.
  bool take_slice(Message& message, const MessageFrame& frame);
  // The peer has posted the receive of `message`.
  void clear(Message& message, bool has_slice);
  void on_starved();
  void on_listening();
  void on_pending(const MessageFrame& frame);
  void on_retire(const MessageFrame& frame);

  MessengerCore& core_;
  const Rank peer_;
  Link* link_ = nullptr;
  Status down_;                    // why the link is gone
  uint64_t posted_ = 0;            // sends and receives not complete
  uint64_t accepted_ = 0;          // frames that the link accepted
  uint64_t left_ = 0;              // at least this many of them have left
  uint64_t last_unsent_ = 0;       // the last eager frame that had not left when it was accepted
  uint64_t unsent_when_down_ = 0;  // frames

  WaitingList small_sends_;     // wait for credit or room
  WaitingList cleared_sends_;   // small, cleared by the peer, wait for room
  WaitingList large_sends_;     // wait for clear-to-send
  WaitingList writes_;          // cleared, wait for room among the link's writes
  WaitingList small_receives_;  // posted, unmatched
  WaitingList early_clears_;    // kCleared without a slice, of this period of starvation
  IntrusiveList<Message, &Message::control> control_;  // have a control frame to send

  uint32_t credits_;           // eager frames we may send
  uint32_t owed_credits_ = 0;  // to be returned
  uint32_t held_credits_ = 0;  // owed ones, and those of unexpected messages
  uint32_t kept_clears_ = 0;   // number of kCleared messages
  bool starving_ = false;      // we said STARVED, and have sent nothing on credit since
  bool peer_starves_ = false;  // the same for the peer
  bool listening_ = false;     // we receive from any rank
  bool said_listening_ = false;
  bool peer_listens_ = false;
  uint64_t newest_posted_ = 0;  // highest number of a collective that we posted here
  OperationHistory theirs_{kRecentOfPeer};
};

}  // namespace rocecoll
