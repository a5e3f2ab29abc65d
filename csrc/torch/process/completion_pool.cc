// SPDX-License-Identifier: Apache-2.0
#include "torch/process/completion_pool.h"

#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "base/named_status.h"
#include "base/per_process.h"
#include "torch/process/errors.h"
#include "torch/process/run_all.h"

namespace rocecoll::torch_adapter {

namespace {

thread_local bool serving_here = false;

}  // namespace

bool CompletionPool::serves_here() { return serving_here; }

CompletionPool& CompletionPool::instance() { return PerProcess<CompletionPool>::instance(); }

void CompletionPool::start_thread() {
  std::thread([this] { serve(); }).detach();
  ++threads_;
}

void CompletionPool::require_thread() {
  const std::lock_guard lock(mutex_);
  if (threads_ > 0) return;
  try {
    start_thread();
  } catch (const std::system_error& error) {
    Throw(NamedStatus(StatusCode::kInternal,
                      std::string("no thread for what follows the call: ") + error.what()));
  }
}

void CompletionPool::run(std::function<void()> task) {
  const std::lock_guard lock(mutex_);
  tasks_.push_back(std::move(task));
  if (tasks_.size() > idle_ && threads_ < kMaxThreads) {
    try {
      return start_thread();
    } catch (const std::system_error&) {  // the task waits for a thread that there is
    }
  }
  work_arrived_.notify_one();
}

bool CompletionPool::drain(std::chrono::nanoseconds limit) {
  std::unique_lock lock(mutex_);
  return became_quiet_.wait_for(lock, limit,
                                [this] { return tasks_.empty() && idle_ == threads_; });
}

void CompletionPool::serve() {
  serving_here = true;
  std::unique_lock lock(mutex_);
  while (true) {
    RunAll(tasks_, lock);
    ++idle_;
    if (idle_ == threads_) became_quiet_.notify_all();
    work_arrived_.wait(lock, [this] { return !tasks_.empty(); });
    --idle_;
  }
}

void SerialQueue::run(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
    if (std::exchange(serving_, true)) return;
  }
  CompletionPool::instance().run([self = shared_from_this()] {
    std::unique_lock lock(self->mutex_);
    RunAll(self->tasks_, lock);
    self->serving_ = false;
  });
}

bool SerialQueue::idle() {
  const std::lock_guard lock(mutex_);
  return !serving_;
}

}  // namespace rocecoll::torch_adapter
