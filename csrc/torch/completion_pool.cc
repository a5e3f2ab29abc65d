// SPDX-License-Identifier: Apache-2.0
#include "torch/completion_pool.h"

#include <thread>
#include <utility>

namespace rocecoll::torch_adapter {

CompletionPool& CompletionPool::instance() {
  static auto* pool = new CompletionPool;
  return *pool;
}

void CompletionPool::run(std::function<void()> task) {
  std::lock_guard lock(mutex_);
  tasks_.push_back(std::move(task));
  if (tasks_.size() > idle_ && threads_ < kMaxThreads) {
    ++threads_;
    std::thread([this] { serve(); }).detach();
  } else {
    work_arrived_.notify_one();
  }
}

void CompletionPool::drain(std::chrono::nanoseconds limit) {
  std::unique_lock lock(mutex_);
  became_quiet_.wait_for(lock, limit, [this] { return tasks_.empty() && idle_ == threads_; });
}

void CompletionPool::serve() {
  std::unique_lock lock(mutex_);
  while (true) {
    while (!tasks_.empty()) {
      std::function<void()> task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      task();
      task = nullptr;
      lock.lock();
    }
    ++idle_;
    if (idle_ == threads_) became_quiet_.notify_all();
    work_arrived_.wait(lock, [this] { return !tasks_.empty(); });
    --idle_;
  }
}

}  // namespace rocecoll::torch_adapter
