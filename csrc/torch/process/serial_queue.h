// SPDX-License-Identifier: Apache-2.0
// Tasks that may block, one at a time in the order given, on a thread of the CompletionPool while
// there are any.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <mutex>

namespace rocecoll::torch_adapter {

class SerialQueue : public std::enable_shared_from_this<SerialQueue> {
 public:
  // Must not throw. The queue lives until its tasks have run.
  void run(std::function<void()> task);

 private:
  void serve();

  std::mutex mutex_;
  std::deque<std::function<void()>> tasks_;  // bounded by the operations in flight
  bool serving_ = false;
};

}  // namespace rocecoll::torch_adapter
