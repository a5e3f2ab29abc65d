// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pthread.h>

#include <atomic>

#include "base/check.h"

namespace rocecoll {

// The process's one T, for what threads share with locks and condition variables. Never destroyed:
// threads may use it while the process exits. A forked child begins with a new one, as in its copy
// a lock may be held, and a condition variable count waiters, for threads that did not come along:
// to notify such a variable can block for ever (glibc before 2.41 waits until counted ones left).
// T befriends this where its constructor is private.
template <typename T>
class PerProcess {
 public:
  static T& instance() {
    static const int watching = [] {
      make();
      return pthread_atfork(nullptr, nullptr, make);
    }();
    ROCECOLL_CHECK(watching == 0);
    return *current_.load(std::memory_order_acquire);
  }

 private:
  static void make() { current_.store(new T, std::memory_order_release); }

  static inline std::atomic<T*> current_{nullptr};
};

}  // namespace rocecoll
