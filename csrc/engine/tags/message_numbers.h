// SPDX-License-Identifier: Apache-2.0
// Numbers the messages between this rank and each peer, by direction and user tag: messages with
// the same tag match in the order in which they were posted. A receive from any source takes its
// number when its source is known. Memory grows with the runs of neighbouring tags that were used
// equally often (TagCounts), not with the tags; TagRetirement bounds the runs.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>

#include "base/rank.h"
#include "engine/tags/tag_counts.h"
#include "messenger/messenger.h"

namespace rocecoll {

class MessageNumbers {
 public:
  // `first` is the number of the first message with each tag, the same at both ends.
  explicit MessageNumbers(uint32_t first = 0) : first_(first) {}

  // Tag::operation of the next message to or from the peer.
  uint64_t take_send(Rank to, uint32_t user_tag) {
    return Tag::OperationOf(user_tag, sends(to).take(user_tag));
  }
  uint64_t take_receive(Rank from, uint32_t user_tag) {
    const uint32_t number = receives(from).take(user_tag);
    if (!announced_.empty()) {
      const auto found = announced_.find(KeyOf(from, user_tag));
      if (found != announced_.end()) {
        announcements_ -= found->second.erase(number);
        if (found->second.empty()) announced_.erase(found);
      }
    }
    return Tag::OperationOf(user_tag, number);
  }
  // What take_receive() would return.
  uint64_t next_receive(Rank from, uint32_t user_tag) const {
    return Tag::OperationOf(user_tag, received(from, user_tag));
  }
  // Remembers the announcement until its number is taken; does nothing if it has been already.
  void note(const Announcement& announcement) {
    if (overflowed()) return;
    const uint32_t user_tag = announcement.tag.user_tag();
    const auto number = static_cast<uint32_t>(announcement.tag.operation);
    const uint32_t next = received(announcement.from, user_tag);
    if (static_cast<int32_t>(number - next) < 0) return;  // numbers wrap around
    auto& arrivals = announced_[KeyOf(announcement.from, user_tag)];
    if (arrivals.try_emplace(number, announcement.arrival).second) ++announcements_;
  }
  // Announcement::arrival, if the next message to be received has been announced.
  std::optional<uint64_t> next_announced(Rank from, uint32_t user_tag) const {
    const auto found = announced_.find(KeyOf(from, user_tag));
    if (found == announced_.end()) return std::nullopt;
    const auto announced = found->second.find(received(from, user_tag));
    if (announced == found->second.end()) return std::nullopt;
    return announced->second;
  }
  // True after more announcements than well-behaved ranks could make; no more are remembered.
  bool overflowed() const { return announcements_ > kMaxAnnounced; }
  // By peer: the messages sent to it, and those received from it or waited for.
  TagCounts& sends(Rank to) { return sends_.try_emplace(to, first_).first->second; }
  TagCounts& receives(Rank from) { return receives_.try_emplace(from, first_).first->second; }
  // How much is remembered, in entries of bounded size.
  size_t entries() const {
    size_t entries = announcements_;
    for (const auto& [rank, tags] : sends_) entries += tags.entries();
    for (const auto& [rank, tags] : receives_) entries += tags.entries();
    return entries;
  }

 private:
  static constexpr size_t kMaxAnnounced = 1u << 20;

  static uint64_t KeyOf(Rank peer, uint32_t user_tag) { return uint64_t{peer} << 32 | user_tag; }
  uint32_t received(Rank from, uint32_t user_tag) const {
    const auto found = receives_.find(from);
    return found == receives_.end() ? first_ : found->second.count(user_tag);
  }

  const uint32_t first_;
  std::unordered_map<Rank, TagCounts> sends_;
  std::unordered_map<Rank, TagCounts> receives_;
  // Arrivals by number, by peer and user tag.
  std::unordered_map<uint64_t, std::map<uint32_t, uint64_t>> announced_;
  size_t announcements_ = 0;
};

}  // namespace rocecoll
