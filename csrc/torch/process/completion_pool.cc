// SPDX-License-Identifier: Apache-2.0
#include "torch/process/completion_pool.h"

#include <pthread.h>

#include <atomic>
#include <thread>
#include <utility>

#include "base/check.h"

namespace rocecoll::torch_adapter {

namespace {

std::atomic<CompletionPool*> current{nullptr};

}  // namespace

CompletionPool& CompletionPool::instance() {
  static const int made = [] {
    current = new CompletionPool;
    // A forked child has a copy without the threads, perhaps locked.
    return pthread_atfork(nullptr, nullptr, [] { current = new CompletionPool; });
  }();
  ROCECOLL_CHECK(made == 0);
  return *current;
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
