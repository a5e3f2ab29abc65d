// SPDX-License-Identifier: Apache-2.0
// Where the blocks of a buffer lie, in elements from the buffer's base address.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/check.h"
#include "base/rank.h"

namespace rocecoll {

struct ElementRange {
  uint64_t offset = 0;
  uint64_t count = 0;
};

// There are three ways to cut: evenly (the first `total % blocks` blocks have one element more),
// with a fixed stride between equal blocks, or explicitly. lane(k, lanes) is the part of every
// block that lane k of an operation works on. Even partitions are cut evenly as a whole, so that a
// lane is one contiguous piece; otherwise a lane is the k-th even part of each block.
class Partition {
 public:
  Partition() = default;
  static Partition Even(uint64_t total, uint32_t blocks, uint64_t offset = 0);
  static Partition Strided(uint32_t blocks, uint64_t count, uint64_t stride, uint64_t offset = 0);
  static Partition Explicit(std::vector<ElementRange> blocks);

  uint32_t blocks() const {
    return order_.empty() ? blocks_ : static_cast<uint32_t>(order_.size());
  }
  ElementRange block(uint32_t index) const;
  // The elements of `count` blocks from `first` on, which end at the last block. Only if
  // contiguous().
  ElementRange run(uint32_t first, uint32_t count) const;
  uint64_t total() const;      // elements in all blocks
  uint64_t max_block() const;  // elements in the largest block
  Partition lane(uint32_t index, uint32_t lanes) const;
  // Blocks of the same sizes, laid out end to end from offset 0.
  Partition packed() const;
  // The same elements in another number of blocks. Only for an even partition.
  Partition recut(uint32_t blocks) const;
  // The same blocks in another order, which must outlive the partition: block i is what block
  // order[i] was, and has no elements if that is kNoRank. An empty order leaves the blocks as they
  // are.
  Partition ordered(std::span<const Rank> order) const;
  // Whether every block starts where the one before it ends, as far as this is known without
  // looking at each of them (so never for an explicit partition).
  bool contiguous() const {
    return order_.empty() && (kind_ == Kind::kEven ||
                              (kind_ == Kind::kStrided && (blocks_ == 1 || stride_ == count_)));
  }

 private:
  enum class Kind : uint8_t { kEven, kStrided, kExplicit };
  Kind kind_ = Kind::kEven;
  uint32_t blocks_ = 0;
  uint64_t offset_ = 0;
  uint64_t total_ = 0;   // kEven
  uint64_t count_ = 0;   // kStrided
  uint64_t stride_ = 0;  // kStrided
  std::shared_ptr<const std::vector<ElementRange>> explicit_;
  std::span<const Rank> order_;
};

}  // namespace rocecoll
