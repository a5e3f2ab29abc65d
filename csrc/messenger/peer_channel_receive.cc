// SPDX-License-Identifier: Apache-2.0
// How a channel handles frames from its peer, which it does not trust.
#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "base/check.h"
#include "messenger/peer_channel.h"

namespace rocecoll {

void PeerChannel::on_frame(std::span<const std::byte> bytes) {
  const std::optional<MessageFrame> frame = ParseMessageFrame(bytes);
  if (!frame) {
    fail_protocol("a malformed frame");
    return;
  }
  if (frame->credits > core_.eager.credits - credits_) {
    fail_protocol("more credits than exist");
    return;
  }
  credits_ += frame->credits;
  switch (frame->type) {
    case MessageType::kEager:
      if (check_operation(*frame)) on_eager(*frame);
      break;
    case MessageType::kClearToSend:
      if (check_operation(*frame)) on_clear_to_send(*frame);
      break;
    case MessageType::kPending:
      if (check_operation(*frame)) on_pending(*frame);
      break;
    case MessageType::kStarved:
      on_starved();
      break;
    case MessageType::kListening:
      on_listening();
      break;
    case MessageType::kRetire:
      on_retire(*frame);
      break;
    case MessageType::kCredit:
      break;
  }
  if (!core_.failed()) pump();
}

void PeerChannel::fail_protocol(const char* what) {
  core_.fail(peer_, Status(StatusCode::kNetwork,
                           "rank " + std::to_string(peer_) + " of the group sent " + what));
}

void PeerChannel::fail_mismatch(const Tag& tag, const Fingerprint& ours, uint64_t our_bytes,
                                const Fingerprint& theirs, uint64_t their_bytes) {
  MessengerFailure failure;
  failure.peer = peer_;
  failure.ours = ours;
  failure.theirs = theirs;
  failure.fingerprints_differ = ours != theirs;
  failure.our_bytes = our_bytes;
  failure.their_bytes = their_bytes;
  failure.tag = tag;
  const std::string who = "rank " + std::to_string(peer_) + " of the group ";
  failure.status =
      Status(StatusCode::kMismatch, failure.fingerprints_differ
                                        ? who + "called a different operation"
                                        : who + "has a message of " + std::to_string(their_bytes) +
                                              " bytes where this rank has one of " +
                                              std::to_string(our_bytes) + " bytes");
  core_.fail(std::move(failure));
}

bool PeerChannel::check_operation(const MessageFrame& frame) {
  if (!frame.tag.is_collective()) return true;
  // Fingerprints of operations that we have not reached must be kept until we do.
  theirs_.note(frame.tag.operation, frame.fingerprint, newest_posted_ + 1);
  const Fingerprint* ours = core_.ours.find(frame.tag.operation);
  if (ours == nullptr || *ours == frame.fingerprint) return true;
  fail_mismatch(frame.tag, *ours, 0, frame.fingerprint, frame.length);
  return false;
}

bool PeerChannel::check_match(const Message& ours, const MessageFrame& frame) {
  if (ours.fingerprint == frame.fingerprint && ours.length == frame.length) return true;
  fail_mismatch(frame.tag, ours.fingerprint, ours.length, frame.fingerprint, frame.length);
  return false;
}

void PeerChannel::on_eager(const MessageFrame& frame) {
  if (!frame.flag) {
    if (held_credits_ >= core_.eager.credits) {
      fail_protocol("more eager messages than it had credits");
      return;
    }
    ++held_credits_;
    peer_starves_ = false;
  }
  Message* receive = core_.messages.find(MessageRole::kRecv, peer_, frame.tag);
  if (receive == nullptr) {
    keep_unexpected(frame);
    return;
  }
  if (!check_match(*receive, frame)) return;
  if (receive->has_slice) {
    fail_protocol("an eager message above this rank's eager limit");
    return;
  }
  if (!frame.payload.empty()) {
    std::memcpy(receive->memory.data, frame.payload.data(), frame.payload.size());
  }
  small_receives_.erase(*receive);
  complete(*receive);
  if (frame.flag) return;
  ++owed_credits_;
  if (must_return_credits()) mark_dirty();
}

void PeerChannel::keep_unexpected(const MessageFrame& frame) {
  if (frame.flag) {
    fail_protocol("a message as cleared that this rank did not clear");
    return;
  }
  if (frame.payload.size() > core_.eager.bytes) {
    fail_protocol("an eager message above this rank's eager limit");
    return;
  }
  if (core_.messages.find(MessageRole::kUnexpected, peer_, frame.tag) != nullptr) {
    fail_protocol("the same message twice");
    return;
  }
  Message& kept = core_.messages.insert(MessageRole::kUnexpected, peer_, frame.tag);
  kept.fingerprint = frame.fingerprint;
  kept.length = frame.length;
  kept.arrival = ++core_.arrivals;
  if (frame.payload.empty()) return;
  kept.payload = core_.take_buffer();
  std::memcpy(kept.payload.get(), frame.payload.data(), frame.payload.size());
}

void PeerChannel::on_clear_to_send(const MessageFrame& frame) {
  Message* message = core_.messages.find(MessageRole::kSend, peer_, frame.tag);
  if (message == nullptr) {
    keep_cleared(frame);
    return;
  }
  if (!check_match(*message, frame)) return;
  if (frame.flag != (message->length > core_.eager.bytes)) {
    fail_protocol("a clear-to-send for another eager limit than this rank's");
    return;
  }
  // The clear-to-send of a small message is repeated in the next period of starvation, while the
  // message waits for room.
  if (message->cleared && !frame.flag) return;
  if (frame.flag && !take_slice(*message, frame)) return;
  clear(*message, frame.flag);
}

bool PeerChannel::take_slice(Message& message, const MessageFrame& frame) {
  const uint64_t expected = next_piece_bytes(message);
  if (expected == 0) {
    fail_protocol("the same clear-to-send twice");
  } else if (frame.slice.length != expected) {
    fail_protocol("a clear-to-send for a piece of another size than this rank's");
  } else if (message.slices.size() == kMaxPieces) {
    fail_protocol("more clear-to-sends for a message than may be under way");
  } else {
    message.slices.push_back(frame.slice);
    message.cleared_bytes += frame.slice.length;
    return true;
  }
  return false;
}

void PeerChannel::keep_cleared(const MessageFrame& frame) {
  // Outside a period of starvation this is either for a message already sent, or will be repeated.
  if (!frame.flag && !starving_) return;
  Message* earlier = core_.messages.find(MessageRole::kCleared, peer_, frame.tag);
  if (earlier != nullptr) {
    if (frame.flag && earlier->has_slice && check_match(*earlier, frame)) {
      take_slice(*earlier, frame);
    } else if (frame.flag) {
      fail_protocol("the same clear-to-send twice");
    }
    return;
  }
  if (kept_clears_ >= core_.options.max_early_clear_to_send) {
    fail_protocol("too many clear-to-sends for messages that this rank has not sent");
    return;
  }
  Message& kept = core_.messages.insert(MessageRole::kCleared, peer_, frame.tag);
  kept.fingerprint = frame.fingerprint;
  kept.length = frame.length;
  kept.has_slice = frame.flag;
  if (!frame.flag) early_clears_.push_back(kept);
  ++kept_clears_;
  if (frame.flag) take_slice(kept, frame);
}

void PeerChannel::clear(Message& message, bool has_slice) {
  core_.unannounced.erase(message);
  control_.erase(message);
  if (!message.cleared) (has_slice ? large_sends_ : small_sends_).erase(message);
  message.cleared = true;
  message.has_slice = has_slice;
  if (!WaitingList::linked(message)) (has_slice ? writes_ : cleared_sends_).push_back(message);
}

void PeerChannel::on_starved() {
  peer_starves_ = true;
  for (Message* m = small_receives_.front(); m != nullptr; m = WaitingList::next(*m)) {
    if (!decltype(control_)::linked(*m)) control_.push_back(*m);
  }
  if (must_return_credits()) mark_dirty();
}

void PeerChannel::on_listening() {
  peer_listens_ = true;
  for (const WaitingList* list : {&large_sends_, &small_sends_}) {
    for (Message* m = list->front(); m != nullptr; m = WaitingList::next(*m)) {
      if (must_announce(*m)) announce(*m);
    }
  }
}

void PeerChannel::on_pending(const MessageFrame& frame) {
  const MessageRole ours = frame.flag ? MessageRole::kRecv : MessageRole::kSend;
  const Message* message = core_.messages.find(ours, peer_, frame.tag);
  if (message != nullptr) {
    check_match(*message, frame);
  } else if (frame.flag && listening_ && !frame.tag.is_collective()) {
    core_.announcements.push_back({peer_, frame.tag, ++core_.arrivals});
  }
}

// A clear-to-send kept from this period of starvation may be a repeated one, for a message with the
// tag that went on credit. The next message with that number is a different one, so it is dropped.
void PeerChannel::on_retire(const MessageFrame& frame) {
  std::optional<std::vector<TagRun>> runs = ParseTagRuns(frame.payload);
  if (!runs) {
    fail_protocol("a malformed frame");
    return;
  }
  if (frame.flag && !early_clears_.empty()) {
    const auto retired = [&](const Tag& tag) {
      return !tag.is_collective() &&
             std::ranges::any_of(*runs, [user_tag = tag.user_tag()](const TagRun& run) {
               return run.first <= user_tag && user_tag <= run.last;
             });
    };
    for (Message* kept = early_clears_.front(); kept != nullptr;) {
      Message* next = WaitingList::next(*kept);
      if (retired(kept->tag)) {
        early_clears_.erase(*kept);
        core_.messages.erase(*kept);
        --kept_clears_;
      }
      kept = next;
    }
  }
  core_.retire_words.push_back({peer_, frame.flag, std::move(*runs)});
}

}  // namespace rocecoll
