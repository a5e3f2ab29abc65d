// SPDX-License-Identifier: Apache-2.0
#include "engine/message_numbers.h"

namespace rocecoll {
namespace {

uint64_t KeyOf(Rank peer, uint32_t user_tag) { return uint64_t{peer} << 32 | user_tag; }

}  // namespace

uint64_t MessageNumbers::take_send(Rank to, uint32_t user_tag) {
  return Tag::OperationOf(user_tag, sends(to).take(user_tag));
}

uint64_t MessageNumbers::take_receive(Rank from, uint32_t user_tag) {
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

uint32_t MessageNumbers::received(Rank from, uint32_t user_tag) const {
  const auto found = receives_.find(from);
  return found == receives_.end() ? first_ : found->second.count(user_tag);
}

uint64_t MessageNumbers::next_receive(Rank from, uint32_t user_tag) const {
  return Tag::OperationOf(user_tag, received(from, user_tag));
}

void MessageNumbers::note(const Announcement& announcement) {
  if (overflowed()) return;
  const uint32_t user_tag = announcement.tag.user_tag();
  const auto number = static_cast<uint32_t>(announcement.tag.operation);
  const uint32_t next = received(announcement.from, user_tag);
  if (static_cast<int32_t>(number - next) < 0) return;  // numbers wrap around
  auto& arrivals = announced_[KeyOf(announcement.from, user_tag)];
  if (arrivals.try_emplace(number, announcement.arrival).second) ++announcements_;
}

std::optional<uint64_t> MessageNumbers::next_announced(Rank from, uint32_t user_tag) const {
  const auto found = announced_.find(KeyOf(from, user_tag));
  if (found == announced_.end()) return std::nullopt;
  const auto announced = found->second.find(received(from, user_tag));
  if (announced == found->second.end()) return std::nullopt;
  return announced->second;
}

size_t MessageNumbers::entries() const {
  size_t entries = announcements_;
  for (const auto& [rank, tags] : sends_) entries += tags.entries();
  for (const auto& [rank, tags] : receives_) entries += tags.entries();
  return entries;
}

}  // namespace rocecoll
