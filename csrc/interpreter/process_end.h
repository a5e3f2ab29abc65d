// SPDX-License-Identifier: Apache-2.0
// Threads that wait when their process ends in good order. Python has daemon threads go on until
// it is no more, so that each of them would print what its wait has failed of: that the group has
// ended with the process.
#pragma once

#include <pybind11/pybind11.h>

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "base/per_process.h"
#include "interpreter/main_thread.h"

namespace rocecoll {

// One for each module: each ends what it has started.
class ProcessEnd {
 public:
  static ProcessEnd& instance() { return PerProcess<ProcessEnd>::instance(); }

  // Before the groups end. Nobody waits for a thread of Python's any more.
  void begin() {
    const std::lock_guard lock(mutex_);
    begun_ = true;
    begins_.notify_all();
  }

  // For a thread whose wait has failed, before it says so. If the process ends it does not return:
  // the thread ends with the process. Where it has failed because another rank left in good order,
  // the end is waited for: ranks that come to the end of one program do so one after the other. Of
  // no effect on the main thread, on one that holds the GIL, and on those that Python knows nothing
  // of, for which others may wait.
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
