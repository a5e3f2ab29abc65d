// SPDX-License-Identifier: Apache-2.0
// What the steps of a program exchange with one rank, and whether any of it is still to come.
#pragma once

#include <cstdint>

#include "base/rank.h"
#include "collectives/program.h"
#include "engine/operations/plan.h"
#include "messenger/messenger.h"

namespace rocecoll {

// Whether the transfer is a message.
inline bool Posts(const Transfer& transfer) { return transfer.kind != Transfer::Kind::kCopy; }

// Which of the messages between the two ranks, in this direction and step, the transfer is.
uint32_t NumberToPeer(const Step& step, uint32_t index);

inline uint32_t SlotOf(const Step& step, uint32_t index, uint32_t lane) {
  return lane << 16 | NumberToPeer(step, index);
}

// Where a lane goes on.
struct LanePlace {
  uint32_t lane = 0;
  uint32_t step = 0;      // the first one that has not begun
  uint32_t received = 0;  // a bit for each transfer of that one that is posted already
};

// Whether the steps from there on send to `peer`, or receive from it what has not come yet.
bool NeedsPeer(const Program& program, Rank self, Rank peer, uint64_t tag_operation,
               const LanePlace& from, const Messenger& messenger);
// The same for the lanes from `lane` on, all of which have yet to begin.
bool LanesNeedPeer(const Plan& plan, Rank self, Rank peer, uint64_t tag_operation, uint32_t lane,
                   const Messenger& messenger);

}  // namespace rocecoll
