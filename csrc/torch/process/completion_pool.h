// SPDX-License-Identifier: Apache-2.0
// Threads that complete futures which callers hold, and queues whose tasks run there. Callbacks
// attached to a future run on the thread that completes it, may take Python's lock, and may wait
// for another collective (DDP's PowerSGD hook does): on the progress thread that would be a
// deadlock.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>

#include "base/per_process.h"

namespace rocecoll::torch_adapter {

class CompletionPool {
 public:
  // Threads that may wait inside callbacks at the same time. Each costs only its stack.
  static constexpr size_t kMaxThreads = 64;

  static CompletionPool& instance();

  // Whether this thread is one of the pool's.
  static bool serves_here();
  // Makes sure that there is a thread, without which a task would never run. Throws if the system
  // refuses it.
  void require_thread();
  // `task` must not throw. Runs at once unless kMaxThreads tasks are already running, or the system
  // refuses a further thread. The queue is bounded by the operations in flight: each is queued at
  // most once.
  void run(std::function<void()> task);
  // Waits for up to `limit` until nothing is queued or running; returns whether that is so.
  bool drain(std::chrono::nanoseconds limit);

 private:
  friend PerProcess<CompletionPool>;
  CompletionPool() = default;
  void start_thread();
  void serve();

  std::mutex mutex_;
  std::condition_variable work_arrived_;
  std::condition_variable became_quiet_;
  std::deque<std::function<void()>> tasks_;
  size_t threads_ = 0;
  size_t idle_ = 0;
};

// Tasks that may block, one at a time in the order given, on a thread of the pool while there are
// any.
class SerialQueue : public std::enable_shared_from_this<SerialQueue> {
 public:
  // Must not throw. The queue lives until its tasks have run.
  void run(std::function<void()> task);
  // No task waits or runs.
  bool idle();

 private:
  std::mutex mutex_;
  std::deque<std::function<void()>> tasks_;  // bounded by the operations in flight
  bool serving_ = false;
};

}  // namespace rocecoll::torch_adapter
