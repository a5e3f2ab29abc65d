// SPDX-License-Identifier: Apache-2.0
#include "transport/sim/event_queue.h"

#include <algorithm>
#include <utility>

namespace rocecoll {

void EventQueue::schedule(Instant at, Callback callback) {
  entries_.push(Entry{std::max(at, now_), next_sequence_++, std::move(callback)});
}

Instant EventQueue::next_time() const { return entries_.empty() ? kNever : entries_.top().at; }

bool EventQueue::run_next() {
  if (entries_.empty()) return false;
  now_ = entries_.top().at;
  // The order of the queue depends on the two numbers only, which moving from leaves in place.
  Callback callback = std::move(const_cast<Entry&>(entries_.top()).callback);
  entries_.pop();
  callback();
  return true;
}

void EventQueue::run_until(Instant until) {
  while (next_time() <= until && run_next()) {
  }
  now_ = std::max(now_, until);
}

}  // namespace rocecoll
