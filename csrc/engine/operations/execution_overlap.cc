// SPDX-License-Identifier: Apache-2.0
// How far two neighbouring steps of a lane run at the same time. A large message waits for its
// receiver's clear-to-send, and its sender for the acknowledgement, which would cost each step a
// round trip. So receives are posted a step ahead, and a step ends with its receives: its sends may
// stay until the next one ends. Neither happens where the steps share memory, nor with more lanes
// than the transport says: then one lane is under way while another waits.
//
// The memory of a send may receive what the same peer sends in the step after it: by then that peer
// has received the send completely.
#include <algorithm>

#include "engine/operations/execution.h"

namespace rocecoll {
namespace {

using Kind = Transfer::Kind;

}  // namespace

bool Execution::overlaps_steps() const {
  return plan_.lanes <= context_.messenger.limits().overlapping_lanes && plan_.program.steps > 1 &&
         plan_.elements * element_bytes_ > context_.messenger.eager_limit().bytes;
}

// Whether the lane may go on to the end of its step, or from there to the next one.
bool Execution::may_go_on(const Lane& lane) const {
  if (!lane.in_step) return true;
  const uint32_t here = lane.next_step % 2;
  if (lane.receives[here] > 0 || lane.sends[1 - here] > 0) return false;
  return lane.sends[here] == 0 || lane.sends_may_stay;
}

// Call once this step's copies are made and all of its messages are posted.
void Execution::look_ahead(Instant now, uint32_t slot) {
  Lane& lane = lanes_[slot];
  lane.sends_may_stay = false;
  const uint32_t number = lane.next_step + 1;
  if (number == plan_.program.steps) return;
  const Step next = plan_.program.step(context_.rank, number);
  size_t scratch_used = 0;
  for (uint32_t i = 0; i < next.size(); ++i) {
    if (may_receive_ahead(lane, next, next[i])) {
      lane.ahead |= 1u << i;
      post(now, slot, next, number, i, scratch_used);
    } else if (next[i].kind != Kind::kCopy) {
      scratch_used += message_scratch(lane, next[i]);
    }
  }
  if (lane.sends[lane.next_step % 2] == 0) return;
  lane.sends_may_stay = std::ranges::all_of(lane.step, [&](const Transfer& transfer) {
    return transfer.kind != Kind::kSend || may_stay(lane, next, transfer);
  });
}

// Nothing is written there before the end of the next step, which waits for it.
bool Execution::may_stay(const Lane& lane, const Step& next, const Transfer& send) const {
  if (message_scratch(lane, send) > 0) return false;
  const auto touches = [&](const Transfer& other) {
    return overlap(lane, send.blocks, other.blocks);
  };
  const bool now = std::ranges::any_of(lane.step, [&](const Transfer& other) {
    return (other.kind == Kind::kRecv || other.kind == Kind::kRecvReduce) && touches(other);
  });
  const bool later = std::ranges::any_of(next, [&](const Transfer& other) {
    const bool received = other.kind == Kind::kRecv && other.peer != send.peer;
    return (received || other.kind == Kind::kCopy) && touches(other);
  });
  return !now && !later;
}

// Nothing is read or written there before the next step begins, nor by a copy with which it begins.
bool Execution::may_receive_ahead(const Lane& lane, const Step& next,
                                  const Transfer& receive) const {
  if (receive.kind != Kind::kRecv && receive.kind != Kind::kRecvReduce) return false;
  const Extent extent = Measure(buffer(lane, receive.blocks.buffer).partition, receive.blocks);
  if (extent.elements * element_bytes_ <= context_.messenger.eager_limit().bytes) return false;
  if (message_scratch(receive, extent) > 0) return true;  // the next step's own
  const auto touches = [&](const Blocks& blocks) { return overlap(lane, receive.blocks, blocks); };
  const auto sent_elsewhere = [&](const Transfer& other) {
    return other.kind == Kind::kSend && other.peer != receive.peer && touches(other.blocks);
  };
  const bool stays =
      lane.sends[1 - lane.next_step % 2] > 0 && std::ranges::any_of(lane.last_step, sent_elsewhere);
  const bool now = std::ranges::any_of(lane.step, [&](const Transfer& other) {
    const bool received = other.kind == Kind::kRecv || other.kind == Kind::kRecvReduce;
    return sent_elsewhere(other) || (received && touches(other.blocks)) ||
           (other.kind == Kind::kRecvReduce && touches(other.source));
  });
  const bool first = std::ranges::any_of(next, [&](const Transfer& other) {
    return other.kind == Kind::kCopy && (touches(other.blocks) || touches(other.source));
  });
  return !stays && !now && !first;
}

// In memory: two of the lane's buffers may be the same.
bool Execution::overlap(const Lane& lane, const Blocks& a, const Blocks& b) const {
  const BoundBuffer& of_a = buffer(lane, a.buffer);
  const BoundBuffer& of_b = buffer(lane, b.buffer);
  bool found = false;
  ForEachSegment(of_a.partition, a, [&](const ElementRange& in_a) {
    const std::byte* const begin = of_a.base + in_a.offset * element_bytes_;
    const std::byte* const end = begin + in_a.count * element_bytes_;
    ForEachSegment(of_b.partition, b, [&](const ElementRange& in_b) {
      const std::byte* const other = of_b.base + in_b.offset * element_bytes_;
      found = found || (other < end && begin < other + in_b.count * element_bytes_);
    });
  });
  return found;
}

}  // namespace rocecoll
