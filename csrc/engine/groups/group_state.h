// SPDX-License-Identifier: Apache-2.0
// A snapshot of what a group is doing, for diagnosis.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/rank.h"
#include "base/time.h"
#include "transport/group_key.h"

namespace rocecoll {

struct GroupState {
  std::string name;
  GroupKey key;  // equal on all its ranks
  Rank rank = 0;
  uint32_t ranks = 0;
  Rank global_rank = 0;
  std::string failure;       // empty: none
  uint64_t collectives = 0;  // called so far
  uint64_t pending = 0;      // operations that are not complete
  std::string last;          // the collective that was completed last
  // The oldest operation that runs; empty: none does.
  std::string running;
  Duration running_for{0};
  std::string message;   // "send", "recv", or empty: it is a collective
  uint32_t tag = 0;      // of the message
  std::string progress;  // of the oldest operation
  // Global ranks: those that its current steps wait for, which are few; for a message its other
  // end, or none if that is any rank.
  std::vector<Rank> waits_for;
};

}  // namespace rocecoll
