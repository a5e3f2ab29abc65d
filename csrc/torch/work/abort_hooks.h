// SPDX-License-Identifier: Apache-2.0
// Functions that a program has called when its group fails (c10d's registerAbortHook, from torch
// 2.14 on), to save what it needs for finding out why.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "runtime/runtime_owner.h"
#include "torch/work/hook_table.h"

namespace rocecoll::torch_adapter {

// They run when a call learns that its group has failed, once for each group, on a thread of the
// CompletionPool: the error of the call may be seen at the same time.
class AbortHooks : public std::enable_shared_from_this<AbortHooks> {
 public:
  using Hook = std::function<void()>;

  void set(int64_t id, Hook hook) { hooks_.set(id, std::move(hook)); }
  void remove(int64_t id) { hooks_.remove(id); }
  // A call of the group has failed. Costs one load while there are no hooks.
  void on_failed_call(const std::shared_ptr<Runtime>& runtime, GroupId group);
  // The caller ends the group: what its calls fail with is no news.
  void on_end(GroupId group) { told_ = group; }

 private:
  void run(GroupId group);

  HookTable<Hook> hooks_;
  std::atomic<GroupId> told_{0};  // the last group that is over
};

}  // namespace rocecoll::torch_adapter
