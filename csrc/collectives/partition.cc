// SPDX-License-Identifier: Apache-2.0
#include "collectives/partition.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace rocecoll {
namespace {

// Part `index` of `count` elements cut into `parts`: the first count % parts have one more. Only
// products of numbers at most `count` and below `parts` occur, so nothing overflows.
ElementRange EvenPart(uint64_t count, uint32_t parts, uint32_t index) {
  const uint64_t base = count / parts;
  const uint64_t larger = count % parts;
  return {index * base + std::min<uint64_t>(index, larger), base + (index < larger ? 1 : 0)};
}

}  // namespace

Partition Partition::Even(uint64_t total, uint32_t blocks, uint64_t offset) {
  ROCECOLL_CHECK(blocks > 0);
  ROCECOLL_CHECK(total <= std::numeric_limits<uint64_t>::max() - offset);
  Partition partition;
  partition.kind_ = Kind::kEven;
  partition.blocks_ = blocks;
  partition.offset_ = offset;
  partition.total_ = total;
  return partition;
}

Partition Partition::Strided(uint32_t blocks, uint64_t count, uint64_t stride, uint64_t offset) {
  ROCECOLL_CHECK(blocks > 0);
  ROCECOLL_CHECK(stride >= count || blocks == 1);
  Partition partition;
  partition.kind_ = Kind::kStrided;
  partition.blocks_ = blocks;
  partition.offset_ = offset;
  partition.count_ = count;
  partition.stride_ = stride;
  return partition;
}

Partition Partition::Explicit(std::vector<ElementRange> blocks) {
  ROCECOLL_CHECK(!blocks.empty());
  ROCECOLL_CHECK(blocks.size() <= std::numeric_limits<uint32_t>::max());
  Partition partition;
  partition.kind_ = Kind::kExplicit;
  partition.blocks_ = static_cast<uint32_t>(blocks.size());
  partition.explicit_ = std::make_shared<const std::vector<ElementRange>>(std::move(blocks));
  return partition;
}

ElementRange Partition::block(uint32_t index) const {
  ROCECOLL_CHECK(index < blocks());
  if (!order_.empty()) {
    index = order_[index];
    if (index == kNoRank) return {};
    ROCECOLL_CHECK(index < blocks_);
  }
  switch (kind_) {
    case Kind::kEven: {
      const ElementRange part = EvenPart(total_, blocks_, index);
      return {offset_ + part.offset, part.count};
    }
    case Kind::kStrided:
      return {offset_ + index * stride_, count_};
    case Kind::kExplicit:
      break;
  }
  return (*explicit_)[index];
}

ElementRange Partition::run(uint32_t first, uint32_t count) const {
  ROCECOLL_CHECK(contiguous() && first < blocks_ && count - 1 < blocks_ - first);
  if (count == blocks_) return {offset_, total()};
  const ElementRange begin = block(first);
  const ElementRange last = count == 1 ? begin : block(first + count - 1);
  return {begin.offset, last.offset + last.count - begin.offset};
}

uint64_t Partition::total() const {
  switch (kind_) {
    case Kind::kEven:
      return total_;
    case Kind::kStrided:
      return count_ * blocks_;
    case Kind::kExplicit:
      break;
  }
  uint64_t sum = 0;
  for (const ElementRange& range : *explicit_) sum += range.count;
  return sum;
}

uint64_t Partition::max_block() const {
  switch (kind_) {
    case Kind::kEven:
      return blocks_ == 0 ? 0 : EvenPart(total_, blocks_, 0).count;
    case Kind::kStrided:
      return count_;
    case Kind::kExplicit:
      break;
  }
  uint64_t largest = 0;
  for (const ElementRange& range : *explicit_) largest = std::max(largest, range.count);
  return largest;
}

Partition Partition::recut(uint32_t blocks) const {
  ROCECOLL_CHECK(kind_ == Kind::kEven && order_.empty());
  return Even(total_, blocks, offset_);
}

Partition Partition::ordered(std::span<const Rank> order) const {
  Partition partition = *this;
  partition.order_ = order;
  return partition;
}

Partition Partition::lane(uint32_t index, uint32_t lanes) const {
  ROCECOLL_CHECK(index < lanes && order_.empty());
  switch (kind_) {
    case Kind::kEven: {
      if (blocks_ == 0) return *this;
      const ElementRange part = EvenPart(total_, lanes, index);
      return Even(part.count, blocks_, offset_ + part.offset);
    }
    case Kind::kStrided: {
      const ElementRange part = EvenPart(count_, lanes, index);
      return Strided(blocks_, part.count, stride_, offset_ + part.offset);
    }
    case Kind::kExplicit:
      break;
  }
  std::vector<ElementRange> parts;
  parts.reserve(explicit_->size());
  for (const ElementRange& range : *explicit_) {
    const ElementRange part = EvenPart(range.count, lanes, index);
    parts.push_back({range.offset + part.offset, part.count});
  }
  return Explicit(std::move(parts));
}

Partition Partition::packed() const {
  switch (kind_) {
    case Kind::kEven:
      return blocks_ == 0 ? *this : Even(total_, blocks_).ordered(order_);
    case Kind::kStrided:
      return Strided(blocks_, count_, count_).ordered(order_);
    case Kind::kExplicit:
      break;
  }
  std::vector<ElementRange> parts;
  parts.reserve(explicit_->size());
  uint64_t offset = 0;
  for (const ElementRange& range : *explicit_) {
    parts.push_back({offset, range.count});
    offset += range.count;
  }
  return Explicit(std::move(parts)).ordered(order_);
}

}  // namespace rocecoll
