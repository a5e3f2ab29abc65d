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
// For the same reason it is made when its library is loaded, not when first used: a thread may just
// be at that while another forks, and the child would wait for it. T befriends this where its
// constructor is private.
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
