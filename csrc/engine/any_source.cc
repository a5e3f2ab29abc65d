// SPDX-License-Identifier: Apache-2.0
#include "engine/any_source.h"

#include <algorithm>
#include <vector>

namespace rocecoll {

void AnySource::add(Instant now, uint32_t index, uint32_t user_tag) {
  if (!used_) messenger_.listen(now);
  used_ = true;
  waiting_.push_back({index, user_tag});
  look_again_ = true;
}

std::optional<Rank> AnySource::first_source(uint32_t user_tag) const {
  std::optional<Rank> first;
  uint64_t first_arrival = UINT64_MAX;
  const auto consider = [&](Rank rank, std::optional<uint64_t> arrival) {
    if (!arrival || *arrival >= first_arrival) return;
    first = rank;
    first_arrival = *arrival;
  };
  for (Rank rank = 0; rank < ranks_; ++rank) {
    if (rank == self_) continue;
    consider(rank, messenger_.arrival(rank, Tag{numbers_.next_receive(rank, user_tag), 0, 0}));
    consider(rank, numbers_.next_announced(rank, user_tag));
  }
  return first;
}

std::optional<AnySource::Match> AnySource::match() {
  for (const Announcement& announcement : messenger_.take_announcements()) {
    numbers_.note(announcement);
  }
  const uint64_t arrivals = messenger_.arrivals();
  if (waiting_.empty() || (!look_again_ && arrivals == arrivals_seen_)) return std::nullopt;
  std::vector<uint32_t> in_vain;  // tags
  for (auto it = waiting_.begin(); it != waiting_.end(); ++it) {
    const Receive receive = *it;
    if (std::ranges::find(in_vain, receive.user_tag) != in_vain.end()) continue;
    if (const auto source = first_source(receive.user_tag)) {
      waiting_.erase(it);
      look_again_ = true;
      return Match{receive.index, *source};
    }
    in_vain.push_back(receive.user_tag);
  }
  look_again_ = false;
  arrivals_seen_ = arrivals;
  return std::nullopt;
}

}  // namespace rocecoll
