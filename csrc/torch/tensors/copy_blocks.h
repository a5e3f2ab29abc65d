// SPDX-License-Identifier: Apache-2.0
// What a lane copies, in as few copies as its ranges allow: rows of one size at one distance, as
// the blocks of one tensor are, go in one copy of two dimensions.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "engine/operations/staged_memory.h"

namespace rocecoll::torch_adapter {

struct CopyBlock {
  std::byte* place = nullptr;  // of the first row
  std::byte* host = nullptr;   // rows lie one behind the other
  size_t row_bytes = 0;
  size_t rows = 1;
  size_t stride = 0;  // of places, where there are several rows

  std::byte* end() const { return place + (rows - 1) * stride + row_bytes; }
};

// Fewer rows are copied one by one, as a device has to gather those of a block first.
inline constexpr size_t kLeastRows = 3;

inline std::vector<CopyBlock> CopyBlocks(std::span<const StagedRange> ranges) {
  std::vector<CopyBlock> blocks;
  for (size_t i = 0; i < ranges.size();) {
    const StagedRange& first = ranges[i];
    CopyBlock block{first.place, first.host, first.bytes};
    size_t rows = 1;
    if (i + 1 < ranges.size() && ranges[i + 1].place >= first.place + first.bytes) {
      block.stride = static_cast<size_t>(ranges[i + 1].place - first.place);
      while (i + rows < ranges.size() && ranges[i + rows].bytes == first.bytes &&
             ranges[i + rows].place == first.place + rows * block.stride &&
             ranges[i + rows].host == first.host + rows * first.bytes) {
        ++rows;
      }
    }
    if (rows < kLeastRows) rows = 1;
    block.rows = rows;
    blocks.push_back(block);
    i += rows;
  }
  return blocks;
}

}  // namespace rocecoll::torch_adapter
