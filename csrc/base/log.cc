// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>

#include "base/per_process.h"

namespace rocecoll {
namespace {

// Bounds waits, so that their end is an instant that the clock can represent.
constexpr Duration kLongestWait = std::chrono::hours(24);

struct Queue {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<LogEntry> entries;
  bool stopped = false;
};

Queue& TheQueue() { return PerProcess<Queue>::instance(); }

}  // namespace

void Log(Severity severity, std::string text) {
  Queue& queue = TheQueue();
  {
    const std::lock_guard lock(queue.mutex);
    if (queue.entries.size() >= kMaxLogEntries) return;
    queue.entries.push_back({severity, std::move(text)});
  }
  queue.changed.notify_one();
}

std::optional<LogEntry> TakeLogEntry(Duration timeout) {
  Queue& queue = TheQueue();
  std::unique_lock lock(queue.mutex);
  queue.changed.wait_for(lock, std::min(timeout, kLongestWait),
                         [&] { return queue.stopped || !queue.entries.empty(); });
  if (queue.entries.empty()) return std::nullopt;
  LogEntry entry = std::move(queue.entries.front());
  queue.entries.pop_front();
  return entry;
}

void StopLogWaits() {
  Queue& queue = TheQueue();
  {
    const std::lock_guard lock(queue.mutex);
    queue.stopped = true;
  }
  queue.changed.notify_all();
}

}  // namespace rocecoll
