// SPDX-License-Identifier: Apache-2.0
// The receives from any source of one group that have no source yet. A message matches one if it is
// the next one from its rank with that tag: earlier ones belong to receives that were posted for
// that rank. If messages of several ranks match, the one that came first goes to the receive posted
// first.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "base/rank.h"
#include "base/time.h"
#include "engine/tags/message_numbers.h"
#include "messenger/messenger.h"

namespace rocecoll {

class AnySource {
 public:
  // Both outlive this.
  AnySource(Messenger& messenger, MessageNumbers& numbers, uint32_t ranks, Rank self)
      : messenger_(messenger), numbers_(numbers), ranks_(ranks), self_(self) {}

  // `index` is the caller's name for the receive.
  void add(Instant now, uint32_t index, uint32_t user_tag) {
    if (!used_) messenger_.listen(now);
    used_ = true;
    waiting_.push_back({index, user_tag});
    look_again_ = true;
  }
  void clear() { waiting_.clear(); }
  // True from the first add() on: then match() must be called in every step, as it takes the
  // announcements.
  bool used() const { return used_; }
  bool empty() const { return waiting_.empty(); }
  uint32_t oldest() const { return waiting_.front().index; }
  // The next number from some rank has been taken, so the one after it may be a match.
  void look_again() { look_again_ = true; }

  struct Match {
    uint32_t index = 0;
    Rank source = 0;
  };
  // A receive that has found its source and is removed from here. The caller takes the number.
  std::optional<Match> match() {
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

 private:
  struct Receive {
    uint32_t index = 0;
    uint32_t user_tag = 0;
  };
  std::optional<Rank> first_source(uint32_t user_tag) const {
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

  Messenger& messenger_;
  MessageNumbers& numbers_;
  const uint32_t ranks_;
  const Rank self_;
  std::deque<Receive> waiting_;  // as they were posted
  bool used_ = false;
  bool look_again_ = false;
  uint64_t arrivals_seen_ = 0;
};

}  // namespace rocecoll
