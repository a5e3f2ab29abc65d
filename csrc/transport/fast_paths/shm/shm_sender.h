// SPDX-License-Identifier: Apache-2.0
// The sending side of a path: its messages, which go into the peer's ring, and its writes, whose
// memory is lent until the peer has the bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "transport/fast_path.h"
#include "transport/fast_paths/shm/peer_end.h"
#include "transport/fast_paths/shm/shared_segment.h"
#include "transport/fast_paths/shm/shm_ring.h"
#include "transport/fast_paths/switching/kept_messages.h"

namespace rocecoll {

class ShmSender {
 public:
  // Counts what it sends in the device's `stats` and in the path's `traffic`.
  ShmSender(PeerEnd& peer, TransportStats& stats, Traffic& traffic, uint64_t first_number)
      : peer_(peer), stats_(stats), traffic_(traffic), messages_(first_number) {}

  // -- a generation
  // Sends into that ring from now on. The peer's process must be known.
  void connect(SharedSegment ring);
  bool connected() const { return ring_.has_value(); }
  // Sends an empty message, with which the peer tries to fetch from our memory.
  void probe();
  // Whether the peer has taken it. From then on peer_fetches() tells whether the peer can fetch.
  bool probe_arrived();
  bool peer_fetches() const { return peer_fetches_; }
  // Tells the peer that lent memory may hold anything from now on. It discards what it fetches.
  void revoke();
  // Drops the ring. What the peer does not have goes out again in the next generation.
  void disconnect();

  // -- messages. Calls marked with * need a ring.
  uint64_t pushed() const { return messages_.pushed(); }
  bool empty() const { return messages_.empty(); }
  uint64_t unsent_frames() const;
  void request_acknowledgement() { wants_acknowledgement_ = true; }
  bool wants_acknowledgement() const { return wants_acknowledgement_; }
  // * Puts the frame into the ring. False: there is no room now.
  bool push_frame(const FrameBytes& frame);
  void push_write(uint32_t number, const RemoteSlice& to, LocalSlice from);
  // * Puts as many messages into the ring as there is room for.
  void pump();
  // * False if the peer has written into the ring's header what cannot be true.
  bool sound() const { return ring_->sound(); }
  // True if so many messages are kept that it is time to drop those that the peer has.
  bool should_settle() const { return messages_.size() >= kSettleEvery; }
  // * Drops messages that the peer has taken. False: it claims some that were never sent.
  bool settle();
  // True if a ring of the bell may mean that the peer has taken something.
  bool expects_news() const {
    return writes_in_ring_ > 0 || !written_.empty() || wants_room_ || wants_acknowledgement_;
  }
  // As of FastPath. Between generations.
  bool acknowledge(uint64_t received);
  std::vector<uint32_t> take_written() { return std::exchange(written_, {}); }
  void forget_writes();
  // Drops all messages and returns the frames among them, oldest first. Numbering starts again at
  // `first_number`.
  std::vector<WireBytes> give_up(uint64_t first_number);

 private:
  // Writes that go through the ring are cut into parts of this size: long enough to be worth a
  // message, short enough that the peer copies one out while the next one is copied in.
  static constexpr size_t kPartBytes = size_t{32} << 10;
  // Longer writes are fetched, because little of them is still in a cache by the time they end: 16
  // MiB from one rank to another took 0.8 of the time that way. Shorter ones go through the ring:
  // the second copy is made from a cache, and finding the sender's pages costs the kernel more. An
  // all_reduce of 16 MiB, whose writes are that short, took less than half of the time that way.
  static constexpr size_t kFetchAbove = size_t{1} << 20;
  static constexpr size_t kSettleEvery = 32;

  struct Message {
    std::span<const std::byte> frame;  // in the peer's ring
    WireBytes saved;                   // its bytes, if it has to go out again
    bool is_write = false;
    uint32_t write = 0;
    size_t offset = 0;  // where this part of the write begins
    size_t size = 0;
  };
  struct Write {
    uint32_t slice = 0;
    LocalSlice from;
  };

  bool post(Message& message);
  bool post_write(Message& message);
  const std::byte* post_payload(const RingEntry& entry, const FrameBytes& payload);
  void count(size_t bytes);
  void drop(const Message& message);

  PeerEnd& peer_;
  TransportStats& stats_;
  Traffic& traffic_;

  // Of this generation.
  SharedSegment segment_;
  std::optional<RingWriter> ring_;
  bool peer_fetches_ = false;
  bool wants_room_ = false;  // a message waits for room in the ring
  size_t writes_in_ring_ = 0;

  // Of all generations.
  KeptMessages<Message> messages_;  // sent: in the ring
  bool wants_acknowledgement_ = false;
  // The peer fetches it with the probe, and again with every write, to be sure whose memory it
  // reads.
  uint64_t cookie_ = 0;
  std::unordered_map<uint32_t, Write> writes_;
  std::vector<uint32_t> written_;
};

}  // namespace rocecoll
