// SPDX-License-Identifier: Apache-2.0
// Functions of a program, by the numbers under which it can take them back (c10d's hooks with an
// id, from torch 2.14 on).
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

namespace rocecoll::torch_adapter {

template <typename Hook>
class HookTable {
 public:
  // Shared: to copy or destroy a function of Python's takes Python's lock, whose holder may wait
  // for ours.
  using Hooks = std::map<int64_t, std::shared_ptr<const Hook>>;

  void set(int64_t id, Hook hook) {
    auto kept = std::make_shared<const Hook>(std::move(hook));
    const std::lock_guard lock(mutex_);
    hooks_[id].swap(kept);
    any_ = true;
  }
  // No hook with this number runs in visit() afterwards.
  void remove(int64_t id) {
    std::shared_ptr<const Hook> removed;
    const std::lock_guard lock(mutex_);
    if (const auto found = hooks_.find(id); found != hooks_.end()) {
      removed = std::move(found->second);
      hooks_.erase(found);
    }
    any_ = !hooks_.empty();
  }
  // Costs one load.
  bool any() const { return any_; }
  Hooks copy() const {
    const std::lock_guard lock(mutex_);
    return hooks_;
  }
  // For hooks that are short and neither come back here nor need Python's lock.
  template <typename Visitor>
  void visit(const Visitor& visitor) const {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, hook] : hooks_) visitor(id, *hook);
  }

 private:
  mutable std::mutex mutex_;
  Hooks hooks_;
  std::atomic<bool> any_{false};
};

}  // namespace rocecoll::torch_adapter
