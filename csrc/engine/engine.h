// SPDX-License-Identifier: Apache-2.0
// L5: runs the operations of all groups of a process over one transport. Passive: whoever holds the
// progress lock (progress.h) calls step(). Not thread safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "engine/operation.h"
#include "messenger/messenger.h"
#include "transport/transport.h"

namespace rocecoll {

using GroupId = uint32_t;

struct GroupSpec {
  std::string name;  // for messages
  GroupKey key;
  Rank rank = 0;
  std::vector<Address> addresses;  // by group rank, as this rank reaches them
  // By group rank, as other hosts reach them, for messages; empty: as this rank does.
  std::vector<std::string> known_as;
  std::vector<Rank> global_ranks;  // by group rank; empty: the same numbers
  Duration timeout = std::chrono::minutes(30);
  MessengerOptions messenger;
};

struct EngineOptions {
  size_t lane_bytes = 512 * 1024;           // an operation is cut into lanes of about this size
  uint32_t max_lanes_in_flight = 8;         // per operation
  uint32_t max_operations_in_flight = 8;    // collectives per group; further ones wait in order
  size_t scratch_bytes = 64 * 1024 * 1024;  // bound of all scratch of the process
  uint32_t max_pending_operations = 65536;  // per group, submitted and not complete
  size_t max_idle_tag_runs = 1024;          // to each peer of a group: see TagRetirement
  // Of collectives and, modulo 2^32, of messages with a tag, on all ranks. Tests begin where a long
  // life would lead.
  uint64_t first_number = 0;
};

struct EngineState {
  size_t groups = 0;  // that exist
  size_t failed_groups = 0;
  bool shut_down = false;
};

class Engine {
 public:
  Engine(Transport& transport, const EngineOptions& options);
  ~Engine();

  Result<GroupId> add_group(GroupSpec spec);
  // Ends the group: pending operations fail with kAborted, links close in good order.
  void remove_group(GroupId group);
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
  // Moves everything that can move. True if something happened.
  bool step(Instant now);
  // Operations completed since the last call, to be finished outside the lock.
  std::vector<OperationPtr> take_completed();
  bool has_pending() const;  // operations not yet complete
  bool lingering() const;    // closed links still deliver their last frames
  Instant next_deadline() const;
  WaitHandle wait_handle() const;
  Transport& transport();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rocecoll
