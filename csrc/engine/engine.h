// SPDX-License-Identifier: Apache-2.0
// Runs the operations of all groups of a process over one transport. The engine is passive: the
// thread that holds the progress lock (progress.h) calls step(). Not thread safe.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "engine/groups/group_spec.h"
#include "engine/groups/group_state.h"
#include "engine/groups/peer_stats.h"
#include "engine/operations/engine_options.h"
#include "engine/operations/operation.h"
#include "transport/transport.h"

namespace rocecoll {

struct EngineState {
  size_t groups = 0;  // that exist
  size_t failed_groups = 0;
  size_t failures = 0;  // so far, also of groups that are gone
  bool shut_down = false;
};

class Engine {
 public:
  Engine(Transport& transport, const EngineOptions& options);
  ~Engine();

  Result<GroupId> add_group(GroupSpec spec);
  // Ends the group: pending operations fail with kAborted, links close in good order. Calls that
  // come too late are told its name and `description`: what its users call it besides, or nothing.
  void remove_group(GroupId group, const std::string& description = {});
  void remove_all_groups();
  void shut_down();  // the same, and none can be added any more
  void set_timeout(GroupId group, Duration timeout);
  // What submit() would refuse the operation for, whatever else is pending.
  Status check(GroupId group, const OperationSpec& spec) const;
  // Checks everything that can be checked here (arguments, reduction, root, partition) and refuses
  // with a Status before anything is sent. Otherwise the operation will complete, in order.
  Status submit(Instant now, GroupId group, OperationPtr operation);
  // Fails the group for good: its operations complete with `why`, all its ranks are told, later
  // operations are refused with the same status.
  void abort(GroupId group, const Status& why);
  // After a failed invariant, when no group can be trusted.
  void fail_all_groups(const std::string& cause);
  Status group_status(GroupId group) const;  // ok, or why the group failed
  EngineState state() const;
  std::vector<GroupState> group_states(Instant now) const;  // in the order of their making
  // What a pending operation waits for, with its group (Group::describe_wait()); empty: it is done.
  std::string describe_wait(GroupId group, const Operation& operation) const;
  // Of all groups: a look at every link, for people.
  std::vector<PeerStats> peer_stats(Instant now) const;
  // Moves everything that can move. True if something happened.
  bool step(Instant now);
  // Operations completed since the last call, to be finished outside the lock.
  std::vector<OperationPtr> take_completed();
  bool has_pending() const;  // operations not yet complete
  Instant next_deadline() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rocecoll
