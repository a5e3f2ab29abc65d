// SPDX-License-Identifier: Apache-2.0
// The process's runtime as the adapter holds it: survives fork() in children that never use it, and
// can end all groups at once before the interpreter goes away.
#pragma once

#include <sys/types.h>

#include <memory>
#include <mutex>
#include <set>

#include "engine/progress.h"
#include "runtime/runtime.h"

namespace rocecoll::torch_adapter {

class RuntimeHandle {
 public:
  // Held while a callback of the progress thread runs: if it drops the last handle, the runtime
  // ends on another thread, since a thread cannot join itself.
  class CallbackScope {
   public:
    CallbackScope();
    ~CallbackScope();
  };

  RuntimeHandle(std::shared_ptr<Progress> progress, RuntimeOptions options);
  // In a forked child nothing is torn down: the progress thread did not come along, and a lock may
  // have been held by it.
  ~RuntimeHandle();
  RuntimeHandle(const RuntimeHandle&) = delete;
  RuntimeHandle& operator=(const RuntimeHandle&) = delete;

  Progress& progress() const { return *progress_; }
  const RuntimeOptions& options() const { return options_; }
  Result<GroupId> add_group(GroupSpec spec);
  // Idempotent.
  void remove_group(GroupId group);
  bool has_groups() const;
  // Ends all groups, lets their last frames be delivered and callbacks of futures run for at most
  // `limit`. Groups cannot be added afterwards.
  void shutdown(Duration limit);

 private:
  bool in_child() const;

  const pid_t owner_;
  std::shared_ptr<Progress> progress_;
  const RuntimeOptions options_;
  mutable std::mutex mutex_;
  std::set<GroupId> groups_;
  bool closed_ = false;
};

}  // namespace rocecoll::torch_adapter
