// SPDX-License-Identifier: Apache-2.0
// Time that c10d's addEphemeralTimeout() gives calls beyond their own (from torch 2.14 on). Each
// extension holds until the first call made after it is complete; several add up.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <iterator>
#include <mutex>
#include <vector>

#include "torch/work/work.h"

namespace rocecoll::torch_adapter {

// Thread-safe. Costs one load a call while there are no extensions.
class TimeoutExtensions {
 public:
  void add(std::chrono::milliseconds time) {
    const std::lock_guard lock(mutex_);
    extensions_.push_back({time, {}});
    any_ = true;
  }

  // What a call gets that is made now.
  std::chrono::milliseconds current() {
    std::chrono::milliseconds total{0};
    if (!any_) return total;
    std::vector<Extension> over;  // whose works end without the lock
    const std::lock_guard lock(mutex_);
    const auto left = std::stable_partition(extensions_.begin(), extensions_.end(),
                                            [](const Extension& one) { return !one.over(); });
    over.assign(std::make_move_iterator(left), std::make_move_iterator(extensions_.end()));
    extensions_.erase(left, extensions_.end());
    for (const Extension& one : extensions_) total += one.time;
    any_ = !extensions_.empty();
    return total;
  }

  void on_made(const Work::Ptr& work) {
    if (!any_) return;
    const std::lock_guard lock(mutex_);
    for (Extension& one : extensions_) {
      if (!one.first) one.first = work;
    }
  }

 private:
  struct Extension {
    std::chrono::milliseconds time;
    Work::Ptr first;  // made since; null: none yet

    bool over() const { return first && first->isCompleted(); }
  };

  std::mutex mutex_;
  std::vector<Extension> extensions_;
  std::atomic<bool> any_{false};
};

}  // namespace rocecoll::torch_adapter
