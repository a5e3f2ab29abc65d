// SPDX-License-Identifier: Apache-2.0
// The inner loop of threads that run tasks of a queue.
#pragma once

#include <deque>
#include <functional>
#include <mutex>
#include <utility>

namespace rocecoll::torch_adapter {

// Until none is left, also of those that are queued meanwhile; each is run and dropped without the
// lock.
inline void RunAll(std::deque<std::function<void()>>& tasks, std::unique_lock<std::mutex>& lock) {
  while (!tasks.empty()) {
    std::function<void()> task = std::move(tasks.front());
    tasks.pop_front();
    lock.unlock();
    task();
    task = nullptr;
    lock.lock();
  }
}

}  // namespace rocecoll::torch_adapter
