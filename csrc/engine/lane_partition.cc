// SPDX-License-Identifier: Apache-2.0
#include "engine/lane_partition.h"

#include <utility>
#include <vector>

namespace rocecoll {
namespace {

// The same blocks, as a partition whose lanes are parts of every block: where a block alone is some
// rank's whole buffer, its lanes must be the parts of that block.
Partition CutByBlocks(const Partition& partition) {
  const uint32_t blocks = partition.blocks();
  const ElementRange first = partition.block(0);
  if (partition.contiguous() && first.count * blocks == partition.total()) {
    return Partition::Strided(blocks, first.count, first.count, first.offset);
  }
  std::vector<ElementRange> ranges;
  ranges.reserve(blocks);
  for (uint32_t i = 0; i < blocks; ++i) ranges.push_back(partition.block(i));
  return Partition::Explicit(std::move(ranges));
}

}  // namespace

Partition LanePartition(const OperationSpec& spec, const Partition& partition, uint32_t index,
                        uint32_t lanes) {
  if (lanes == 1 || partition.blocks() == 0) return partition;
  if (TraitsOf(spec.collective).cut == Cut::kOurs || !partition.contiguous()) {
    return partition.lane(index, lanes);
  }
  return CutByBlocks(partition).lane(index, lanes);
}

}  // namespace rocecoll
