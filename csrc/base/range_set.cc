// SPDX-License-Identifier: Apache-2.0
#include "base/range_set.h"

namespace rocecoll {

size_t RangeSet::first_reaching(uint64_t value) const {
  // Most calls concern the high end.
  if (ranges_.empty() || ranges_.back().end < value) return ranges_.size();
  if (ranges_.back().begin <= value) return ranges_.size() - 1;
  const auto found = std::lower_bound(ranges_.begin(), ranges_.end(), value,
                                      [](const Range& r, uint64_t v) { return r.end < v; });
  return static_cast<size_t>(found - ranges_.begin());
}

uint64_t RangeSet::insert(uint64_t begin, uint64_t end) {
  ROCECOLL_CHECK(begin <= end);
  if (begin == end) return 0;
  // Ranges never touch, so that no range ends where another begins: the first range that reaches
  // `begin` is the first one to merge.
  const size_t first = first_reaching(begin);
  if (first == ranges_.size() || ranges_[first].begin > end) {
    ranges_.insert(ranges_.begin() + static_cast<ptrdiff_t>(first), Range{begin, end});
    total_ += end - begin;
    return end - begin;
  }
  Range& merged = ranges_[first];
  uint64_t known = merged.end - merged.begin;
  size_t last = first + 1;
  uint64_t merged_end = std::max(merged.end, end);
  for (; last < ranges_.size() && ranges_[last].begin <= merged_end; ++last) {
    known += ranges_[last].end - ranges_[last].begin;
    merged_end = std::max(merged_end, ranges_[last].end);
  }
  merged.begin = std::min(merged.begin, begin);
  merged.end = merged_end;
  const uint64_t added = merged.end - merged.begin - known;
  ranges_.erase(ranges_.begin() + static_cast<ptrdiff_t>(first) + 1,
                ranges_.begin() + static_cast<ptrdiff_t>(last));
  total_ += added;
  ROCECOLL_CHECK(added <= end - begin);
  return added;
}

void RangeSet::erase(uint64_t begin, uint64_t end) {
  ROCECOLL_CHECK(begin <= end);
  if (begin == end) return;
  size_t i = first_reaching(begin);
  if (i < ranges_.size() && ranges_[i].end == begin) ++i;
  if (i < ranges_.size() && ranges_[i].begin < begin) {
    const Range cut = ranges_[i];
    ranges_[i].end = begin;
    total_ -= std::min(cut.end, end) - begin;
    ++i;
    if (cut.end > end) {
      ranges_.insert(ranges_.begin() + static_cast<ptrdiff_t>(i), Range{end, cut.end});
      return;
    }
  }
  size_t last = i;
  for (; last < ranges_.size() && ranges_[last].end <= end; ++last) {
    total_ -= ranges_[last].end - ranges_[last].begin;
  }
  if (last < ranges_.size() && ranges_[last].begin < end) {
    total_ -= end - ranges_[last].begin;
    ranges_[last].begin = end;
  }
  ranges_.erase(ranges_.begin() + static_cast<ptrdiff_t>(i),
                ranges_.begin() + static_cast<ptrdiff_t>(last));
  ROCECOLL_CHECK(total_ > 0 || ranges_.empty());
}

bool RangeSet::contains(uint64_t value) const { return covers(value, value + 1); }

bool RangeSet::covers(uint64_t begin, uint64_t end) const {
  ROCECOLL_CHECK(begin <= end);
  if (begin == end) return true;
  const size_t i = first_reaching(end);
  return i < ranges_.size() && ranges_[i].begin <= begin;
}

}  // namespace rocecoll
