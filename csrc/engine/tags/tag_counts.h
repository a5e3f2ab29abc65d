// SPDX-License-Identifier: Apache-2.0
// How often each of a user's tags has been used. Neighbouring tags that were used equally often are
// one entry: a program that counts its tags up, or goes through a range of them in any order, needs
// a few entries, however many tags it uses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>

#include "base/check.h"
#include "messenger/messenger.h"

namespace rocecoll {

class TagCounts {
 public:
  explicit TagCounts(uint32_t first = 0) : first_(first) {}

  uint32_t count(uint32_t tag) const {
    const auto after = runs_.upper_bound(tag);
    if (after == runs_.begin()) return first_;
    const Run& run = std::prev(after)->second;
    return tag < run.end ? run.count : first_;
  }
  // Counts one use; returns how many there were before. Counts wrap around.
  uint32_t take(uint32_t tag) {
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
  size_t entries() const { return runs_.size(); }
  // The first run of tags used equally often that begins at `first` or behind it.
  std::optional<TagRun> next_run(uint64_t first) const {
    const auto found = runs_.lower_bound(first);
    if (found == runs_.end()) return std::nullopt;
    const Run& run = found->second;
    return TagRun{static_cast<uint32_t>(found->first), static_cast<uint32_t>(run.end - 1),
                  run.count};
  }
  // Whether each of the tags has been used exactly `run.count` times.
  bool holds(const TagRun& run) const {  // neighbours of equal count are always one run
    const auto after = runs_.upper_bound(run.first);
    if (after == runs_.begin()) return false;
    const Run& within = std::prev(after)->second;
    return run.last < within.end && run.count == within.count;
  }
  // Tags for which holds() is true count from the first number again.
  void forget(const TagRun& run) {
    ROCECOLL_CHECK(holds(run));
    const auto within = std::prev(runs_.upper_bound(run.first));
    const uint64_t next = uint64_t{run.last} + 1;
    if (within->second.end > next) runs_.emplace_hint(std::next(within), next, within->second);
    within->second.end = run.first;
    if (within->first == run.first) runs_.erase(within);
  }

 private:
  struct Run {
    uint64_t end = 0;  // the first tag behind it
    uint32_t count = 0;
  };
  using Runs = std::map<uint64_t, Run>;  // by first tag; a tag in none has `first_`

  // The run of this tag alone, cut out of the one that it is in.
  Runs::iterator isolate(uint32_t tag) {
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

  const uint32_t first_;
  Runs runs_;
};

}  // namespace rocecoll
