// SPDX-License-Identifier: Apache-2.0
// From the blocks of a program to contiguous memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "collectives/partition.h"
#include "collectives/program.h"
#include "transport/transport.h"

namespace rocecoll {

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
        const ElementRange begin = partition.block(first);
        const ElementRange end = piece == 1 ? begin : partition.block(first + piece - 1);
        add({begin.offset, end.offset + end.count - begin.offset});
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

}  // namespace rocecoll
