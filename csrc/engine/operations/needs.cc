// SPDX-License-Identifier: Apache-2.0
#include "engine/operations/needs.h"

namespace rocecoll {

uint32_t NumberToPeer(const Step& step, uint32_t index) {
  const bool sends = step[index].kind == Transfer::Kind::kSend;
  uint32_t number = 0;
  for (uint32_t i = 0; i < index; ++i) {
    const bool same_direction = Posts(step[i]) && (step[i].kind == Transfer::Kind::kSend) == sends;
    if (same_direction && step[i].peer == step[index].peer) ++number;
  }
  return number;
}

bool NeedsPeer(const Program& program, Rank self, Rank peer, uint64_t tag_operation,
               const LanePlace& from, const Messenger& messenger) {
  for (uint32_t number = from.step; number < program.steps; ++number) {
    const Step step = program.step(self, number);
    const uint32_t received = number == from.step ? from.received : 0;
    for (uint32_t i = 0; i < step.size(); ++i) {
      const Transfer& transfer = step[i];
      if (!Posts(transfer) || transfer.peer != peer || (received >> i & 1) != 0) continue;
      if (transfer.kind == Transfer::Kind::kSend) return true;
      const Tag tag{tag_operation, number, SlotOf(step, i, from.lane)};
      if (!messenger.arrival(peer, tag)) return true;
    }
  }
  return false;
}

bool LanesNeedPeer(const Plan& plan, Rank self, Rank peer, uint64_t tag_operation, uint32_t lane,
                   const Messenger& messenger) {
  for (; lane < plan.lanes; ++lane) {
    if (NeedsPeer(plan.program, self, peer, tag_operation, {lane}, messenger)) return true;
  }
  return false;
}

}  // namespace rocecoll
