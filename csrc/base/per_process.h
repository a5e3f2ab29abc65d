// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pthread.h>

#include <atomic>

#include "base/check.h"

namespace rocecoll {

// The process's only T, for what threads share with locks and condition variables.
//
// It is never destroyed, since threads may use it while the process exits. A forked child begins
// with a new one: in the copy a lock may be held, or a condition variable count waiters, for
// threads that the child does not have. Notifying such a variable can block for ever (glibc
// before 2.41 waits until the counted waiters have left). For the same reason it is created when
// its library is loaded, not at first use: another thread may fork during that, and the child would
// wait for ever. T befriends this class if its constructor is private.
template <typename T>
class PerProcess {
 public:
  static T& instance() { return *place_.current.load(std::memory_order_acquire); }

 private:
  struct Place {
    Place() {
      make();
      ROCECOLL_CHECK(pthread_atfork(nullptr, nullptr, make) == 0);
    }

    std::atomic<T*> current{nullptr};
  };

  static void make() { place_.current.store(new T, std::memory_order_release); }

  static inline Place place_;
};

}  // namespace rocecoll
