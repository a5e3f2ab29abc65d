// SPDX-License-Identifier: Apache-2.0
#include "engine/tag_counts.h"

#include <iterator>

namespace rocecoll {

uint32_t TagCounts::count(uint32_t tag) const {
  const auto after = runs_.upper_bound(tag);
  if (after == runs_.begin()) return 0;
  const Run& run = std::prev(after)->second;
  return tag < run.end ? run.count : 0;
}

// The run of this tag alone, cut out of the one that it is in.
TagCounts::Runs::iterator TagCounts::isolate(uint32_t tag) {
  const auto after = runs_.upper_bound(tag);
  const uint64_t next = uint64_t{tag} + 1;
  if (after == runs_.begin() || tag >= std::prev(after)->second.end) {
    return runs_.emplace_hint(after, tag, Run{next, 0});
  }
  const auto within = std::prev(after);
  const Run run = within->second;
  if (run.end > next) runs_.emplace_hint(after, next, run);
  if (within->first == tag) {
    within->second.end = next;
    return within;
  }
  within->second.end = tag;
  return runs_.emplace_hint(std::next(within), tag, Run{next, run.count});
}

uint32_t TagCounts::take(uint32_t tag) {
  const auto run = isolate(tag);
  const uint32_t before = run->second.count++;
  const auto join = [this](Runs::iterator left, Runs::iterator right) {
    if (left->second.end != right->first || left->second.count != right->second.count) return;
    left->second.end = right->second.end;
    runs_.erase(right);
  };
  if (const auto right = std::next(run); right != runs_.end()) join(run, right);
  if (run != runs_.begin()) join(std::prev(run), run);
  return before;
}

}  // namespace rocecoll
