// SPDX-License-Identifier: Apache-2.0
// The function that a program has called for each work that completes
// (ProcessGroup._register_on_completion_hook).
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "torch/process/completion_pool.h"

namespace rocecoll::torch_adapter {

// Calls come one at a time, in the order of completion, on a thread of their own and with no lock
// held: a hook may begin operations and wait for them.
class CompletionHook : public std::enable_shared_from_this<CompletionHook> {
 public:
  using Function = std::function<void(std::shared_ptr<c10d::WorkInfo>)>;

  bool is_set() const { return set_.load(std::memory_order_acquire); }
  // Once only.
  void set(Function function);
  // A work has begun; completed() will follow, with null for one that was never sent.
  void expect();
  void completed(std::shared_ptr<c10d::WorkInfo> info);
  // Returns when no begun work is left and all calls have returned; throws what the handler of a
  // signal raises meanwhile. Not for use in a hook.
  void wait_for_all();

 private:
  Function function_;
  std::atomic<bool> set_{false};
  const std::shared_ptr<SerialQueue> queue_ = std::make_shared<SerialQueue>();
  std::mutex mutex_;
  std::condition_variable became_none_;
  size_t expected_ = 0;
};

}  // namespace rocecoll::torch_adapter
