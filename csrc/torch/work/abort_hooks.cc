// SPDX-License-Identifier: Apache-2.0
#include "torch/work/abort_hooks.h"

#include <c10/util/Exception.h>

#include <exception>
#include <utility>

#include "base/named_status.h"
#include "torch/process/completion_pool.h"

namespace rocecoll::torch_adapter {

void AbortHooks::set(int64_t id, Hook hook) {
  const std::lock_guard lock(mutex_);
  hooks_[id] = std::move(hook);
  any_ = true;
}

void AbortHooks::remove(int64_t id) {
  Hook removed;  // ends without the lock: it may be a function of Python's
  const std::lock_guard lock(mutex_);
  if (const auto found = hooks_.find(id); found != hooks_.end()) {
    removed = std::move(found->second);
    hooks_.erase(found);
  }
  any_ = !hooks_.empty();
}

void AbortHooks::on_failed_call(const std::shared_ptr<Runtime>& runtime, GroupId group) {
  if (!any_) return;
  CompletionPool::instance().run([self = shared_from_this(), runtime, group] {
    if (runtime->forked() || runtime->progress().group_status(group).ok()) return;
    self->run(group);
  });
}

void AbortHooks::on_end(GroupId group) {
  const std::lock_guard lock(mutex_);
  told_ = group;
}

void AbortHooks::run(GroupId group) {
  std::map<int64_t, Hook> hooks;
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(told_, group) == group) return;
    hooks = hooks_;
  }
  for (const auto& [id, hook] : hooks) {
    try {
      hook();
    } catch (const std::exception& error) {
      TORCH_WARN(kNamePrefix, "abort hook ", id, " raised: ", error.what());
    }
  }
}

}  // namespace rocecoll::torch_adapter
