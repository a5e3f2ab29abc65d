// SPDX-License-Identifier: Apache-2.0
// The process's one runtime: who starts it, with which settings, when it is replaced and how it
// ends. It lives in the core's library, so a process has one however many modules link that.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "base/per_process.h"
#include "base/status.h"
#include "engine/progress/progress.h"
#include "runtime/option_table.h"
#include "runtime/runtime.h"

namespace rocecoll {

class RuntimeOwner;

// A runtime that the owner has started. Its users share it; it ends with the last of them.
class Runtime {
 public:
  Runtime(const RuntimeOwner& owner, std::unique_ptr<Progress> progress, OptionValues settings,
          RuntimeOptions options, RoceUse roce);
  // Tears nothing down in a forked child: the progress thread does not exist there, and may have
  // held a lock when the process forked.
  ~Runtime();

  // Whether this is a copy in a forked child; progress() must not be used there.
  bool forked() const;
  Progress& progress() const { return *progress_; }
  const OptionValues& settings() const { return settings_; }
  const RuntimeOptions& options() const { return options_; }  // the settings, resolved
  const RoceUse& roce() const { return roce_; }

 private:
  const RuntimeOwner* const owner_;
  std::unique_ptr<Progress> progress_;
  const OptionValues settings_;
  const RuntimeOptions options_;
  const RoceUse roce_;
};

// Thread safe.
class RuntimeOwner {
 public:
  // A forked child gets a new owner, as what the copy holds belongs to the parent.
  static RuntimeOwner& instance();

  // Returns the running runtime if it has these settings or if groups use it; otherwise replaces it
  // by a new one.
  Result<std::shared_ptr<Runtime>> start(const OptionValues& settings);
  // Of all runtimes so far; zeros before there was one.
  TransportStats stats();
  std::vector<PeerStats> peer_stats();  // of the running runtime, if any
  EngineState state();
  std::vector<GroupState> group_states();  // of the running runtime
  // Ends it for good: all its groups end, and their last frames are delivered
  // (ProgressOptions::final_linger).
  void end();

 private:
  friend PerProcess<RuntimeOwner>;
  RuntimeOwner() = default;
  // Ends the running runtime, if any; its last frames are delivered.
  void retire();

  std::mutex mutex_;
  std::shared_ptr<Runtime> runtime_;  // null: not started, or ended
  TransportStats past_stats_;         // of those that have ended
  bool ended_ = false;
};

}  // namespace rocecoll
