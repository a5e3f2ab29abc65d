// SPDX-License-Identifier: Apache-2.0
// Threads that are waiting when their process ends in good order. Python lets daemon threads run
// until the process is gone, so each of them would print why its wait failed: because the group has
// ended with the process.
#pragma once

#include <pybind11/pybind11.h>

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "base/per_process.h"
#include "interpreter/main_thread.h"

namespace rocecoll {

// Each module has one, for what it has started.
class ProcessEnd {
 public:
  static ProcessEnd& instance() { return PerProcess<ProcessEnd>::instance(); }

  // To be called before the groups end, once nobody waits for Python's threads any more.
  void begin() {
    const std::lock_guard lock(mutex_);
    begun_ = true;
    begins_.notify_all();
  }

  // A thread whose wait has failed calls it before it reports that. If the process is ending, it
  // does not return, and the thread ends with the process. If the wait failed because another rank
  // left in good order, it first waits for the end for a while: the ranks of one program end one
  // after the other. It does nothing on the main thread, on a thread that holds the GIL, and on
  // threads that Python does not know, since others may wait for those.
  void hold_back(bool peer_left) {
    if (IsMainThread() || Py_IsInitialized() == 0) return;
    if (PyGILState_GetThisThreadState() == nullptr || PyGILState_Check() != 0) return;
    std::unique_lock lock(mutex_);
    if (peer_left) begins_.wait_for(lock, kAfterAnother, [this] { return begun_; });
    if (!begun_) return;
    lock.unlock();
    while (true) pause();
  }

 private:
  static constexpr std::chrono::seconds kAfterAnother{1};

  friend PerProcess<ProcessEnd>;
  ProcessEnd() = default;

  std::mutex mutex_;
  std::condition_variable begins_;
  bool begun_ = false;
};

}  // namespace rocecoll
