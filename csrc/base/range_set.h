// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/check.h"

namespace rocecoll {

// A set of integers as sorted ranges that neither touch nor overlap. Appending at the high end, the
// usual case for bytes and packets that arrive in order, takes constant time; anything else is
// linear in the number of ranges, which is the number of holes. clear() keeps the memory.
class RangeSet {
 public:
  struct Range {
    uint64_t begin = 0;
    uint64_t end = 0;  // exclusive
    friend bool operator==(const Range&, const Range&) = default;
  };

  // Returns how many of [begin, end) were not in the set before.
  uint64_t insert(uint64_t begin, uint64_t end);
  void erase(uint64_t begin, uint64_t end);
  bool contains(uint64_t value) const;
  bool covers(uint64_t begin, uint64_t end) const;
  // Calls `visit(begin, end)` for each maximal part of [begin, end) that is not in the set.
  template <typename Visit>
  void for_each_missing(uint64_t begin, uint64_t end, Visit visit) const;

  bool empty() const { return ranges_.empty(); }
  uint64_t total() const { return total_; }
  std::span<const Range> ranges() const { return ranges_; }  // ascending
  const Range& front() const {
    ROCECOLL_CHECK(!empty());
    return ranges_.front();
  }
  const Range& back() const {
    ROCECOLL_CHECK(!empty());
    return ranges_.back();
  }
  void clear() {
    ranges_.clear();
    total_ = 0;
  }

 private:
  // Index of the first range that ends at or after `value`.
  size_t first_reaching(uint64_t value) const;

  std::vector<Range> ranges_;
  uint64_t total_ = 0;
};

template <typename Visit>
void RangeSet::for_each_missing(uint64_t begin, uint64_t end, Visit visit) const {
  ROCECOLL_CHECK(begin <= end);
  for (size_t i = first_reaching(begin); begin < end; ++i) {
    const bool is_last = i >= ranges_.size() || ranges_[i].begin >= end;
    const uint64_t hole_end = is_last ? end : ranges_[i].begin;
    if (begin < hole_end) visit(begin, hole_end);
    if (is_last) return;
    begin = std::max(begin, ranges_[i].end);
  }
}

}  // namespace rocecoll
