// SPDX-License-Identifier: Apache-2.0
#include "engine/tag_counts.h"

#include <iterator>

#include "base/check.h"

namespace rocecoll {

uint32_t TagCounts::count(uint32_t tag) const {
  const auto after = runs_.upper_bound(tag);
  if (after == runs_.begin()) return first_;
  const Run& run = std::prev(after)->second;
  return tag < run.end ? run.count : first_;
}

// The run of this tag alone, cut out of the one that it is in.
TagCounts::Runs::iterator TagCounts::isolate(uint32_t tag) {
  const auto after = runs_.upper_bound(tag);
  const uint64_t next = uint64_t{tag} + 1;
  if (after == runs_.begin() || tag >= std::prev(after)->second.end) {
    return runs_.emplace_hint(after, tag, Run{next, first_});
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

std::optional<TagRun> TagCounts::next_run(uint64_t first) const {
  const auto found = runs_.lower_bound(first);
  if (found == runs_.end()) return std::nullopt;
  const Run& run = found->second;
  return TagRun{static_cast<uint32_t>(found->first), static_cast<uint32_t>(run.end - 1), run.count};
}

// Neighbours of equal count are always one run.
bool TagCounts::holds(const TagRun& run) const {
  const auto after = runs_.upper_bound(run.first);
  if (after == runs_.begin()) return false;
  const Run& within = std::prev(after)->second;
  return run.last < within.end && run.count == within.count;
}

void TagCounts::forget(const TagRun& run) {
  ROCECOLL_CHECK(holds(run));
  const auto within = std::prev(runs_.upper_bound(run.first));
  const uint64_t next = uint64_t{run.last} + 1;
  if (within->second.end > next) runs_.emplace_hint(std::next(within), next, within->second);
  within->second.end = run.first;
  if (within->first == run.first) runs_.erase(within);
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
