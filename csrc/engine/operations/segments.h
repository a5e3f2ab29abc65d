// SPDX-License-Identifier: Apache-2.0
// From the blocks of a program to contiguous memory: which part of a buffer a lane works on, and
// the pieces that it is made of.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "collectives/partition.h"
#include "collectives/program.h"
#include "engine/operations/operation.h"
#include "transport/transport.h"

namespace rocecoll {

// The same blocks, as a partition whose lanes are parts of every block: where a block alone is some
// rank's whole buffer, its lanes must be the parts of that block.
inline Partition CutByBlocks(const Partition& partition) {
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

// The lane's part of a buffer of `spec`; a buffer that this rank does not have has no blocks.
inline Partition LanePartition(const OperationSpec& spec, const Partition& partition,
                               uint32_t index, uint32_t lanes) {
  if (lanes == 1 || partition.blocks() == 0) return partition;
  if (TraitsOf(spec.collective).cut == Cut::kOurs || !partition.contiguous()) {
    return partition.lane(index, lanes);
  }
  return CutByBlocks(partition).lane(index, lanes);
}

// One of the buffers a program names, as one lane of one rank sees it.
struct BoundBuffer {
  std::byte* base = nullptr;  // element 0 of the partition
  Partition partition;
  RegistrationId registration = kUnregistered;
};

// Calls visit(ElementRange) for each longest contiguous piece of `blocks`, in their order. Pieces
// without elements are left out.
template <typename Visit>
void ForEachSegment(const Partition& partition, const Blocks& blocks, Visit&& visit) {
  const uint32_t in_buffer = partition.blocks();
  // The usual case, taken several times an operation.
  const bool one_run = blocks.count > 0 && blocks.run >= blocks.count && blocks.first < in_buffer &&
                       blocks.count <= in_buffer - blocks.first;
  if (one_run && partition.contiguous()) {
    const ElementRange range = partition.run(blocks.first, blocks.count);
    if (range.count > 0) visit(range);
    return;
  }
  ElementRange pending;
  const auto add = [&](const ElementRange& range) {
    if (range.count == 0) return;
    if (pending.count > 0 && pending.offset + pending.count == range.offset) {
      pending.count += range.count;
      return;
    }
    if (pending.count > 0) visit(pending);
    pending = range;
  };
  for (uint32_t done = 0; done < blocks.count;) {
    const uint32_t in_run = std::min(blocks.run, blocks.count - done);
    uint32_t first = blocks.at(done, in_buffer);
    for (uint32_t left = in_run; left > 0; first = 0) {
      const uint32_t piece = std::min(left, in_buffer - first);
      if (partition.contiguous()) {
        add(partition.run(first, piece));
      } else {
        for (uint32_t i = 0; i < piece; ++i) add(partition.block(first + i));
      }
      left -= piece;
    }
    done += in_run;
  }
  if (pending.count > 0) visit(pending);
}

struct Extent {
  uint64_t elements = 0;
  uint32_t segments = 0;
  ElementRange first;
};

inline Extent Measure(const Partition& partition, const Blocks& blocks) {
  Extent extent;
  ForEachSegment(partition, blocks, [&](const ElementRange& range) {
    if (extent.segments++ == 0) extent.first = range;
    extent.elements += range.count;
  });
  return extent;
}

// Calls pair(to, from, elements) for the longest pieces that are contiguous on both sides, in their
// order.
template <typename Pair>
void ForEachPair(const BoundBuffer& to, const Blocks& to_blocks, const BoundBuffer& from,
                 const Blocks& from_blocks, size_t element_bytes, Pair&& pair) {
  const auto at = [&](const BoundBuffer& buffer, const ElementRange& range) {
    return buffer.base + range.offset * element_bytes;
  };
  const Extent whole_to = Measure(to.partition, to_blocks);
  const Extent whole_from = Measure(from.partition, from_blocks);
  ROCECOLL_CHECK(whole_to.elements == whole_from.elements);
  if (whole_to.elements == 0) return;
  if (whole_to.segments == 1 && whole_from.segments == 1) {
    pair(at(to, whole_to.first), at(from, whole_from.first), whole_to.elements);
    return;
  }
  ElementRange pending_to;
  ElementRange pending_from;
  const auto flush = [&] {
    if (pending_to.count > 0) pair(at(to, pending_to), at(from, pending_from), pending_to.count);
  };
  for (uint32_t i = 0; i < to_blocks.count; ++i) {
    const ElementRange a = to.partition.block(to_blocks.at(i, to.partition.blocks()));
    const ElementRange b = from.partition.block(from_blocks.at(i, from.partition.blocks()));
    ROCECOLL_CHECK(a.count == b.count);
    if (a.offset == pending_to.offset + pending_to.count &&
        b.offset == pending_from.offset + pending_to.count) {
      pending_to.count += a.count;
      continue;
    }
    flush();
    pending_to = a;
    pending_from = b;
  }
  flush();
}

}  // namespace rocecoll
