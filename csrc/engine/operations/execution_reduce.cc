// SPDX-License-Identifier: Apache-2.0
// Reduces what is received: at the step's end, out of scratch, or as it arrives, so that the link
// need not copy it there (transport/intake.h).
#include "collectives/reduce.h"
#include "engine/operations/early_reduction.h"
#include "engine/operations/execution.h"

namespace rocecoll {

// Returns null if the message is to land. For messages of the lane's step that have a slice of
// their own: shorter ones are copied by the messenger, which costs less than asking here.
Intake* Execution::reduce_as_it_comes(Lane& lane, uint32_t index, const Extent& extent) {
  const size_t bytes = extent.elements * element_bytes_;
  if (extent.segments != 1 || bytes <= context_.messenger.eager_limit().bytes) return nullptr;
  const Transfer& transfer = lane.step[index];
  const BoundBuffer& source = buffer(lane, transfer.source.buffer);
  const Extent own = Measure(source.partition, transfer.source);
  if (own.segments != 1) return nullptr;
  const auto overlaps = [&](const Blocks& a, const Blocks& b) { return overlap(lane, a, b); };
  const bool lingers = lane.sends[1 - lane.next_step % 2] > 0;
  if (!MayReduceEarly(lane.step, index, lingers ? lane.last_step : Step(), overlaps)) {
    return nullptr;
  }
  const BoundBuffer& sum = buffer(lane, transfer.blocks.buffer);
  lane.reduces_as_it_comes |= 1u << index;
  lane.reductions[index] =
      IncomingReduction(spec_->type, spec_->reduce_op, received_is_left(transfer),
                        source.base + own.first.offset * element_bytes_,
                        sum.base + extent.first.offset * element_bytes_, bytes);
  return &lane.reductions[index];
}

// At the end of the step; `slice` is where it has landed.
void Execution::reduce(Lane& lane, uint32_t index, const std::byte* slice) {
  if ((lane.reduces_as_it_comes >> index & 1) != 0) {
    lane.reductions[index].take_rest(slice);
    return;
  }
  const Transfer& transfer = lane.step[index];
  const bool left = received_is_left(transfer);
  ForEachPair(buffer(lane, transfer.blocks.buffer), transfer.blocks,
              buffer(lane, transfer.source.buffer), transfer.source, element_bytes_,
              [&](std::byte* sum, const std::byte* own, uint64_t elements) {
                Reduce(spec_->type, spec_->reduce_op, left ? slice : own, left ? own : slice, sum,
                       elements);
                slice += elements * element_bytes_;
              });
}

}  // namespace rocecoll
