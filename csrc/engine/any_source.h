// SPDX-License-Identifier: Apache-2.0
// The receives from any source of one group that have no source yet. A message is theirs if it is
// the next one from its rank with their tag: earlier ones belong to receives that were posted for
// that rank. Of several ranks' messages the one that came first goes to the receive posted first.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "base/rank.h"
#include "base/time.h"
#include "engine/message_numbers.h"
#include "messenger/messenger.h"

namespace rocecoll {

class AnySource {
 public:
  // Both outlive this.
  AnySource(Messenger& messenger, MessageNumbers& numbers, uint32_t ranks, Rank self)
      : messenger_(messenger), numbers_(numbers), ranks_(ranks), self_(self) {}

  // `index` is the caller's name for the receive.
  void add(Instant now, uint32_t index, uint32_t user_tag);
  void clear() { waiting_.clear(); }
  // From the first add() on match() must be called on every step, to hear of announcements.
  bool used() const { return used_; }
  bool empty() const { return waiting_.empty(); }
  uint32_t oldest() const { return waiting_.front().index; }
  // The next number from some rank has been taken, so the one after it may be a match.
  void look_again() { look_again_ = true; }

  struct Match {
    uint32_t index = 0;
    Rank source = 0;
  };
  // A receive that has a source now, which is no longer kept. The caller takes the number.
  std::optional<Match> match();

 private:
  struct Receive {
    uint32_t index = 0;
    uint32_t user_tag = 0;
  };
  std::optional<Rank> first_source(uint32_t user_tag) const;

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
