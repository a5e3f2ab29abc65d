// SPDX-License-Identifier: Apache-2.0
#include "messenger/peer_channel.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "base/check.h"

namespace rocecoll {

PeerChannel::PeerChannel(MessengerCore& core, Rank peer)
    : core_(core), peer_(peer), credits_(core.eager.credits) {}

bool PeerChannel::ready(Instant now) {
  if (core_.failed()) return false;
  if (link_ != nullptr) return true;
  if (!down_.ok()) {
    core_.fail(peer_, down_);
    return false;
  }
  const LinkId id{core_.group, core_.self, peer_};
  const Result<Link*> opened =
      core_.transport.open(id, core_.addresses[peer_], core_.options.connect_timeout, now);
  if (!opened.ok()) {
    core_.fail(peer_, opened.status());
    return false;
  }
  link_ = opened.value();
  core_.channels_by_link.emplace(link_, this);
  return true;
}

void PeerChannel::accept(Instant now) {
  if (link_ == nullptr && down_.ok()) ready(now);
}

void PeerChannel::listen(Instant now) {
  if (listening_ || !down_.ok() || !ready(now)) return;
  listening_ = true;
  pump();
}

bool PeerChannel::note_posted(const Tag& tag, const Fingerprint& fingerprint) {
  if (!tag.is_collective()) return true;
  core_.ours.note(tag.operation, fingerprint, std::numeric_limits<uint64_t>::max());
  newest_posted_ = std::max(newest_posted_, tag.operation);
  const Fingerprint* theirs = theirs_.find(tag.operation);
  if (theirs == nullptr || *theirs == fingerprint) return true;
  fail_mismatch(tag, fingerprint, 0, *theirs, 0);
  return false;
}

Message& PeerChannel::post(MessageRole role, Instant now, const Tag& tag,
                           const Fingerprint& fingerprint, LocalSlice memory, uint64_t token) {
  Message& message = core_.messages.insert(role, peer_, tag);
  message.fingerprint = fingerprint;
  message.length = memory.size;
  message.memory = memory;
  message.token = token;
  message.posted_at = now;
  ++posted_;
  return message;
}

void PeerChannel::send(Instant now, const Tag& tag, const Fingerprint& fingerprint, LocalSlice from,
                       uint64_t token) {
  if (!note_posted(tag, fingerprint) || !ready(now)) return;
  Message* early =
      kept_clears_ > 0 ? core_.messages.find(MessageRole::kCleared, peer_, tag) : nullptr;
  const bool small = from.size <= core_.eager.bytes;
  const bool nothing_waits = control_.empty() && cleared_sends_.empty() && small_sends_.empty();
  if (small && early == nullptr && credits_ > 0 && nothing_waits &&
      send_eager(tag, fingerprint, from, /*cleared=*/false)) {
    core_.completions.push_back({token, peer_, frame_to_leave()});
    return;
  }
  Message& message = post(MessageRole::kSend, now, tag, fingerprint, from, token);
  (small ? small_sends_ : large_sends_).push_back(message);
  core_.unannounced.push_back(message);
  if (early != nullptr) send_cleared_early(tag, *early);
  if (must_announce(message)) announce(message);
  pump();
}

void PeerChannel::send_cleared_early(const Tag& tag, Message& early) {
  MessageFrame frame;
  frame.type = MessageType::kClearToSend;
  frame.flag = early.has_slice;
  frame.tag = tag;
  frame.length = early.length;
  frame.fingerprint = early.fingerprint;
  std::vector<RemoteSlice> slices = std::move(early.slices);
  early_clears_.erase(early);
  core_.messages.erase(early);
  --kept_clears_;
  if (!frame.flag) on_clear_to_send(frame);
  for (const RemoteSlice& slice : slices) {
    if (core_.failed()) return;
    frame.slice = slice;
    on_clear_to_send(frame);
  }
}

void PeerChannel::recv(Instant now, const Tag& tag, const Fingerprint& fingerprint, LocalSlice into,
                       uint64_t token) {
  if (core_.failed() || !note_posted(tag, fingerprint)) return;
  if (Message* unexpected = core_.messages.find(MessageRole::kUnexpected, peer_, tag)) {
    receive_unexpected(*unexpected, fingerprint, into, token);
    return;
  }
  if (!ready(now)) return;
  Message& message = post(MessageRole::kRecv, now, tag, fingerprint, into, token);
  if (into.size > core_.eager.bytes) {
    message.has_slice = true;
    control_.push_back(message);
  } else {
    small_receives_.push_back(message);
    core_.unannounced.push_back(message);
    if (peer_starves_) control_.push_back(message);
  }
  pump();
}

void PeerChannel::receive_unexpected(Message& unexpected, const Fingerprint& fingerprint,
                                     LocalSlice into, uint64_t token) {
  if (unexpected.fingerprint != fingerprint || unexpected.length != into.size) {
    fail_mismatch(unexpected.tag, fingerprint, into.size, unexpected.fingerprint,
                  unexpected.length);
    return;
  }
  if (into.size > 0) std::memcpy(into.data, unexpected.payload.get(), into.size);
  core_.give_back(std::move(unexpected.payload));
  core_.messages.erase(unexpected);
  core_.completions.push_back({token});
  ++owed_credits_;
  if (must_return_credits()) mark_dirty();
}

uint64_t PeerChannel::unsent_frames() const {
  const uint64_t unsent = link_ == nullptr ? unsent_when_down_ : link_->unsent_frames();
  return std::min(unsent, accepted_);  // a link may count frames of its own, too
}

// After an eager send: the frame to ask has_left() about, or 0 if it has left.
uint64_t PeerChannel::frame_to_leave() {
  if (unsent_frames() == 0) return 0;
  last_unsent_ = accepted_;
  return accepted_;
}

void PeerChannel::complete(Message& message, uint64_t frame) {
  core_.completions.push_back({message.token, peer_, frame});
  control_.erase(message);
  core_.unannounced.erase(message);
  core_.messages.erase(message);
  --posted_;
}

bool PeerChannel::must_announce(const Message& message) const {
  return peer_listens_ && !message.cleared && !message.tag.is_collective();
}

void PeerChannel::announce(Message& message) {
  core_.unannounced.erase(message);
  if (!decltype(control_)::linked(message)) control_.push_back(message);
  mark_dirty();
}

void PeerChannel::on_written(uint32_t index) {
  Message* message = core_.messages.at(index);
  ROCECOLL_CHECK(message != nullptr && message->role == MessageRole::kSend &&
                 message->peer == peer_ && message->pieces_under_way > 0);
  --message->pieces_under_way;
  if (message->written_bytes == message->length && message->pieces_under_way == 0) {
    complete(*message);
  }
}

void PeerChannel::on_landed(uint32_t index) {
  Message* message = core_.messages.at(index);
  ROCECOLL_CHECK(message != nullptr && message->role == MessageRole::kRecv &&
                 message->peer == peer_ && message->pieces_under_way > 0);
  --message->pieces_under_way;
  if (message->cleared_bytes < message->length) {
    if (!decltype(control_)::linked(*message)) control_.push_back(*message);
    mark_dirty();
  } else if (message->pieces_under_way == 0) {
    complete(*message);
  }
}

uint64_t PeerChannel::next_piece_bytes(const Message& message) const {
  return std::min<uint64_t>(core_.limits.max_write_bytes, message.length - message.cleared_bytes);
}

void PeerChannel::on_down() { end_link(Status(link_->status()), Status()); }

// The peer is no longer there to take what the link still has.
void PeerChannel::on_left() {
  if (link_ == nullptr) return;
  const Status left(StatusCode::kPeerLeft, "the peer had left before it was spoken to");
  end_link(left, left);
}

void PeerChannel::end_link(const Status& why, const Status& told) {
  unsent_when_down_ = unsent_frames();
  close(told);
  down_ = why;
  if (LeftInGoodOrder(why)) {
    ++core_.peers_left;
  } else {
    MessengerFailure& lost = core_.lost.emplace_back();
    lost.status = why;
    lost.peer = peer_;
  }
  if (posted_ > 0 || !has_left(last_unsent_)) core_.fail(peer_, why);
}

void PeerChannel::close(const Status& why) {
  if (link_ == nullptr) return;
  core_.channels_by_link.erase(link_);
  link_->close(why);
  link_ = nullptr;
}

void PeerChannel::mark_dirty() {
  if (dirty) return;
  dirty = true;
  core_.dirty.push_back(this);
}

bool PeerChannel::must_return_credits() const {
  return owed_credits_ > 0 && (peer_starves_ || 2 * uint64_t{owed_credits_} >= core_.eager.credits);
}

bool PeerChannel::flush() {
  if (link_ == nullptr) return true;
  if (!pump()) return false;
  if (!must_return_credits()) return true;
  MessageFrame credit;
  credit.type = MessageType::kCredit;
  return send_frame(credit);
}

bool PeerChannel::pump() {
  if (link_ == nullptr) return true;
  const bool frames_done = pump_frames();
  return pump_writes() && frames_done;
}

// Receives first: clearing them costs little and lets the peer work. None of the queues grows while
// it is being worked on, so the others get their turn.
bool PeerChannel::pump_frames() {
  if (listening_ && !say_listening()) return false;
  while (Message* message = control_.front()) {
    if (!send_control(*message)) return false;
    control_.erase(*message);
  }
  while (Message* message = cleared_sends_.front()) {
    if (!send_eager(message->tag, message->fingerprint, message->memory, /*cleared=*/true)) {
      return false;
    }
    cleared_sends_.erase(*message);
    complete(*message, frame_to_leave());
  }
  while (credits_ > 0 && !small_sends_.empty()) {
    Message& message = *small_sends_.front();
    if (!send_eager(message.tag, message.fingerprint, message.memory, /*cleared=*/false)) {
      return false;
    }
    small_sends_.erase(message);
    complete(message, frame_to_leave());
  }
  if (small_sends_.empty() || starving_) return true;
  MessageFrame starved;
  starved.type = MessageType::kStarved;
  starving_ = send_frame(starved);
  return starving_;
}

bool PeerChannel::say_listening() {
  if (said_listening_) return true;
  MessageFrame listening;
  listening.type = MessageType::kListening;
  said_listening_ = send_frame(listening);
  return said_listening_;
}

bool PeerChannel::pump_writes() {
  while (Message* message = writes_.front()) {
    size_t written = 0;
    for (const RemoteSlice& to : message->slices) {
      LocalSlice from = message->memory;
      from.data += message->written_bytes;
      from.size = to.length;
      if (!link_->write(to, from, message->index)) break;
      message->written_bytes += to.length;
      ++message->pieces_under_way;
      ++written;
    }
    message->slices.erase(message->slices.begin(),
                          message->slices.begin() + static_cast<std::ptrdiff_t>(written));
    if (!message->slices.empty()) {
      mark_dirty();
      return false;
    }
    writes_.erase(*message);
  }
  return true;
}

bool PeerChannel::send_frame(MessageFrame& frame) {
  frame.credits = static_cast<uint16_t>(
      std::min<uint32_t>(owed_credits_, std::numeric_limits<uint16_t>::max()));
  std::array<std::byte, MessageFrame::kMaxControlBytes> head;
  if (!link_->send_frame({WriteMessageHead(head, frame), frame.payload})) {
    mark_dirty();
    return false;
  }
  ++accepted_;
  owed_credits_ -= frame.credits;
  held_credits_ -= frame.credits;
  return true;
}

bool PeerChannel::send_eager(const Tag& tag, const Fingerprint& fingerprint, LocalSlice from,
                             bool cleared) {
  MessageFrame frame;
  frame.type = MessageType::kEager;
  frame.flag = cleared;
  frame.tag = tag;
  frame.length = from.size;
  frame.fingerprint = fingerprint;
  frame.payload = {from.data, from.size};
  if (!send_frame(frame)) return false;
  if (!cleared) {
    --credits_;
    end_starvation();
  }
  return true;
}

bool PeerChannel::send_retire(bool answer, std::span<const TagRun> runs) {
  if (link_ == nullptr) return true;
  const std::vector<std::byte> payload = EncodeTagRuns(runs);
  MessageFrame frame;
  frame.type = MessageType::kRetire;
  frame.flag = answer;
  frame.payload = payload;
  return send_frame(frame);
}

bool PeerChannel::send_control(Message& message) {
  const bool receives = message.role == MessageRole::kRecv;
  if (receives && message.has_slice) return clear_pieces(message);
  MessageFrame frame;
  frame.type = receives && peer_starves_ ? MessageType::kClearToSend : MessageType::kPending;
  frame.flag = !receives;
  frame.tag = message.tag;
  frame.length = message.length;
  frame.fingerprint = message.fingerprint;
  return send_frame(frame);
}

// Clears as many pieces as may be under way. A slice stays exposed while there is no room for its
// frame.
bool PeerChannel::clear_pieces(Message& message) {
  MessageFrame frame;
  frame.type = MessageType::kClearToSend;
  frame.flag = true;
  frame.tag = message.tag;
  frame.length = message.length;
  frame.fingerprint = message.fingerprint;
  while (!message.slices.empty() ||
         (message.cleared_bytes < message.length && message.pieces_under_way < kMaxPieces)) {
    if (message.slices.empty()) {
      LocalSlice into = message.memory;
      into.data += message.cleared_bytes;
      into.size = next_piece_bytes(message);
      if (into.size < message.length) into.intake = nullptr;  // only for whole messages
      message.slices.push_back(link_->expose(into, message.index));
      message.cleared_bytes += into.size;
      ++message.pieces_under_way;
    }
    frame.slice = message.slices.front();
    if (!send_frame(frame)) return false;
    message.slices.clear();
  }
  return true;
}

void PeerChannel::end_starvation() {
  if (!starving_) return;
  starving_ = false;
  while (Message* kept = early_clears_.front()) {
    early_clears_.erase(*kept);
    core_.messages.erase(*kept);
    --kept_clears_;
  }
}

}  // namespace rocecoll
