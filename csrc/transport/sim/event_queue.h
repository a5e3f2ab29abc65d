// SPDX-License-Identifier: Apache-2.0
// Virtual time: decides what happens when, in one thread. Events due at the same instant run in the
// order in which they were scheduled, so a run is a function of its inputs alone.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

#include "base/time.h"

namespace rocecoll {

class EventQueue {
 public:
  using Callback = std::function<void()>;

  Instant now() const { return now_; }
  // An instant in the past counts as now.
  void schedule(Instant at, Callback callback) {
    entries_.push(Entry{std::max(at, now_), next_sequence_++, std::move(callback)});
  }
  // When the next event is due; kNever if there is none.
  Instant next_time() const { return entries_.empty() ? kNever : entries_.top().at; }
  // Moves the clock to the next event and runs it. Returns false if there is none.
  bool run_next() {
    if (entries_.empty()) return false;
    now_ = entries_.top().at;
    // The order of the queue depends only on the two numbers, which moving from the entry leaves
    // intact.
    Callback callback = std::move(const_cast<Entry&>(entries_.top()).callback);
    entries_.pop();
    callback();
    return true;
  }
  // Runs all events due at or before `until`, then moves the clock there (never backwards).
  void run_until(Instant until) {
    while (next_time() <= until && run_next()) {
    }
    now_ = std::max(now_, until);
  }

 private:
  struct Entry {
    Instant at;
    uint64_t sequence = 0;
    Callback callback;
  };
  struct Later {
    bool operator()(const Entry& a, const Entry& b) const {
      return a.at != b.at ? a.at > b.at : a.sequence > b.sequence;
    }
  };
  std::priority_queue<Entry, std::vector<Entry>, Later> entries_;
  uint64_t next_sequence_ = 0;
  Instant now_{};
};

}  // namespace rocecoll
