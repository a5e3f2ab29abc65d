// SPDX-License-Identifier: Apache-2.0
#include "torch/process/serial_queue.h"

#include <utility>

#include "torch/process/completion_pool.h"

namespace rocecoll::torch_adapter {

void SerialQueue::run(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
    if (std::exchange(serving_, true)) return;
  }
  CompletionPool::instance().run([self = shared_from_this()] { self->serve(); });
}

void SerialQueue::serve() {
  std::unique_lock lock(mutex_);
  while (!tasks_.empty()) {
    std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();
    task = nullptr;
    lock.lock();
  }
  serving_ = false;
}

}  // namespace rocecoll::torch_adapter
