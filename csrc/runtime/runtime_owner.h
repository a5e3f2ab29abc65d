// SPDX-License-Identifier: Apache-2.0
// The process's one runtime: who starts it, with which settings, when it starts anew and how it
// ends. It is in the core's library, so a process has one however many modules link that.
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

// What the owner started, as those hold it who use it; it ends with the last of them.
class Runtime {
 public:
  Runtime(const RuntimeOwner& owner, std::unique_ptr<Progress> progress, OptionValues settings,
          RuntimeOptions options, RoceUse roce);
  // In a forked child nothing is torn down: the progress thread did not come along, and a lock may
  // have been held by it.
  ~Runtime();

  // A copy in a forked child, whose progress() nobody may use.
  bool forked() const;
  Progress& progress() const { return *progress_; }
  const OptionValues& settings() const { return settings_; }
  const RuntimeOptions& options() const { return options_; }  // the same
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
  // A forked child has a new one: what the copy holds belongs to the parent.
  static RuntimeOwner& instance();

  // The runtime with these settings: the one that runs, or a new one that takes its place. While
  // groups use the one that runs it stays, whatever the settings.
  Result<std::shared_ptr<Runtime>> start(const OptionValues& settings);
  // Of the runtime that runs, or was ended by end(); zeros before there was one.
  TransportStats stats();
  std::vector<PeerStats> peer_stats();  // of the runtime that runs, if one does
  EngineState state();
  std::vector<GroupState> group_states();  // of the runtime that runs
  // Ends it for good: all its groups end, and their last frames are delivered
  // (ProgressOptions::final_linger).
  void end();

 private:
  friend PerProcess<RuntimeOwner>;
  RuntimeOwner() = default;

  std::mutex mutex_;
  std::shared_ptr<Runtime> runtime_;  // null: none was asked for, or it has ended
  TransportStats last_stats_;
  bool ended_ = false;
};

}  // namespace rocecoll
