// SPDX-License-Identifier: Apache-2.0
#include "engine/message_numbers.h"

namespace rocecoll {
namespace {

// Tag::operation of a point-to-point message: bit 63, the user's tag, the number.
uint64_t TagOf(uint32_t user_tag, uint32_t number) {
  return uint64_t{1} << 63 | uint64_t{user_tag} << 32 | number;
}

uint64_t KeyOf(Rank peer, uint32_t user_tag) { return uint64_t{peer} << 32 | user_tag; }

}  // namespace

uint64_t MessageNumbers::take_send(Rank to, uint32_t user_tag) {
  return TagOf(user_tag, sends_[KeyOf(to, user_tag)]++);
}

uint64_t MessageNumbers::take_receive(Rank from, uint32_t user_tag) {
  Receives& receives = receives_[KeyOf(from, user_tag)];
  if (!receives.announced.empty()) announced_ -= receives.announced.erase(receives.next);
  return TagOf(user_tag, receives.next++);
}

uint64_t MessageNumbers::next_receive(Rank from, uint32_t user_tag) const {
  const auto found = receives_.find(KeyOf(from, user_tag));
  return TagOf(user_tag, found == receives_.end() ? 0 : found->second.next);
}

void MessageNumbers::note(const Announcement& announcement) {
  if (overflowed()) return;
  const auto user_tag = static_cast<uint32_t>(announcement.tag.operation >> 32 & 0x7fffffff);
  const auto number = static_cast<uint32_t>(announcement.tag.operation);
  Receives& receives = receives_[KeyOf(announcement.from, user_tag)];
  if (static_cast<int32_t>(number - receives.next) < 0) return;  // numbers wrap around
  if (receives.announced.try_emplace(number, announcement.arrival).second) ++announced_;
}

std::optional<uint64_t> MessageNumbers::next_announced(Rank from, uint32_t user_tag) const {
  const auto found = receives_.find(KeyOf(from, user_tag));
  if (found == receives_.end()) return std::nullopt;
  const auto announced = found->second.announced.find(found->second.next);
  if (announced == found->second.announced.end()) return std::nullopt;
  return announced->second;
}

}  // namespace rocecoll
