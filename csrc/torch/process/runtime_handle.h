// SPDX-License-Identifier: Apache-2.0
// The process's runtime as the adapter holds it: survives fork() in children that never use it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "engine/progress.h"
#include "runtime/runtime.h"

namespace rocecoll::torch_adapter {

class RuntimeHandle {
 public:
  RuntimeHandle(std::shared_ptr<Progress> progress, RuntimeOptions options);
  // In a forked child nothing is torn down: the progress thread did not come along, and a lock may
  // have been held by it.
  ~RuntimeHandle();
  RuntimeHandle(const RuntimeHandle&) = delete;
  RuntimeHandle& operator=(const RuntimeHandle&) = delete;

  // Throws in a forked child. So does what needs the progress of an operation begun before.
  Progress& progress() const {
    check_process();
    return *progress_;
  }
  void check_process() const {
    if (in_child()) ThrowForked();
  }
  const RuntimeOptions& options() const { return options_; }
  Result<GroupId> add_group(GroupSpec spec);
  void remove_group(GroupId group);
  EngineState state() const;
  // Ends all groups, lets their last frames be delivered (ProgressOptions::final_linger) and
  // callbacks of futures run. Groups cannot be added afterwards.
  void shutdown();

 private:
  [[noreturn]] static void ThrowForked();
  bool in_child() const { return owner_ != forks_.load(std::memory_order_relaxed); }

  static std::atomic<uint64_t> forks_;  // between the first process and this one
  const uint64_t owner_;
  std::shared_ptr<Progress> progress_;
  const RuntimeOptions options_;
};

}  // namespace rocecoll::torch_adapter
