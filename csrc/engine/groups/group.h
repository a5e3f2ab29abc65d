// SPDX-License-Identifier: Apache-2.0
// One process group: numbers its operations, admits them in order, watches deadlines, and fails as
// a whole. Owned by the engine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "collectives/host_layout.h"
#include "engine/groups/failure_text.h"
#include "engine/groups/gone_groups.h"
#include "engine/groups/group_failure.h"
#include "engine/groups/group_spec.h"
#include "engine/groups/group_state.h"
#include "engine/groups/notice.h"
#include "engine/groups/peer_stats.h"
#include "engine/groups/pending_operations.h"
#include "engine/groups/roll_call.h"
#include "engine/groups/wait_watch.h"
#include "engine/operations/engine_options.h"
#include "engine/operations/execution.h"
#include "engine/operations/operation.h"
#include "engine/operations/scratch.h"
#include "engine/tags/any_source.h"
#include "engine/tags/message_numbers.h"
#include "engine/tags/tag_retirement.h"
#include "messenger/messenger.h"

namespace rocecoll {

class Group {
 public:
  // Completed operations are appended to `completed`, in the order in which they completed.
  Group(Transport& transport, ScratchPool& scratch, const EngineOptions& options, GroupSpec spec,
        std::vector<OperationPtr>& completed);
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  Status check(const OperationSpec& spec) const;
  Status submit(Instant now, OperationPtr operation);
  bool on_event(Instant now, const Event& event);
  // `peer` opens its side of our link. Any sender may have made up the number.
  void on_incoming(Instant now, Rank peer);
  void on_notice(const AbortNotice& notice);
  void on_notice(const RollCallNotice& notice);
  void on_notice(const LeftNotice& notice);
  bool step(Instant now);
  // Whether operations are done except that what they sent last has yet to leave this process,
  // whose end would lose it.
  bool has_leaving() const { return !operations_.leaving().empty(); }
  // Completes those whose last messages have left since. True if there were any.
  bool complete_left();
  // This process did not run for `length`, which counts towards no deadline.
  void on_pause(Duration length);
  // Fails the group for good. `cause` has no prefix and is also what the other ranks are told.
  void fail(StatusCode code, const std::string& cause);
  // The same with a message that is the caller's own, shown as it is.
  void abort(const Status& why);
  // Ends in good order: pending operations fail with kAborted and links close; no notice is sent.
  void leave();
  // After leave(): what to tell ranks that open a link later.
  PartingWord parting_word() const { return failure_.parting_word(); }

  void set_timeout(Duration timeout) { spec_.timeout = timeout; }
  const Status& status() const { return failure_.status(); }
  GroupState state(Instant now) const;
  // `group "0": all_reduce #3 (SUM, float32, 4 elements) waits for rank 1 (10.0.0.3:40123)`. Empty
  // if the operation is not pending.
  std::string describe_wait(const Operation& operation) const;
  bool has_pending() const { return pending_ > 0; }
  Instant next_deadline() const;
  const GroupSpec& spec() const { return spec_; }
  // One for each rank that this rank has a link to; none after a failure.
  std::vector<PeerStats> peer_stats(Instant now) const;

 private:
  using Entry = PendingOperations::Entry;
  using Running = PendingOperations::Running;

  uint64_t next_tag(const OperationSpec& spec);
  void begin(Instant now, uint32_t index);
  bool bind_any_source(Instant now);
  bool retire_tags(Instant now);
  std::vector<uint32_t> open_tags(Rank peer, bool sends) const;
  bool may_admit(const Entry& entry) const;
  bool admit(Instant now);
  bool start_lanes(Instant now, const std::vector<uint32_t>& indices);
  void finish(uint32_t index);
  static void note_leaving(const Messenger& messenger, const MessageCompletion& sent,
                           Running& running);
  bool all_left(Running& running) const;
  void release(uint32_t index);
  void complete(OperationPtr operation, const Status& status);
  void complete_all();
  void end_failed(const Status& told);
  void fail_because(const Status& why, const Running* running);
  void fail_from_messenger();
  bool fail_from_staging();
  bool fail_from_any_source();
  bool fail_from_lost();
  bool needs(const Running& running, Rank peer) const;
  void fail_from_link(const MessengerFailure& failure, const Running* running);
  // Unless the other ranks are still being asked who is missing.
  void fail_from_deadline(Instant now);
  bool call_the_roll(Instant now, const Running* late, RollCall& roll);
  std::string describe_roll(const RollCall& roll) const;
  // Warns about ranks that are silent and about operations that take long (group_faults.cc).
  void look_at_waits(Instant now);
  void tell_of_long_wait(Instant now, const Running& oldest,
                         const std::vector<AwaitedRank>& awaited);
  void check_deadlines(Instant now);
  Instant next_timeout() const {
    return roll_call_.active() ? roll_call_.next_look() : operations_.earliest_deadline();
  }
  std::string describe(const Running& running) const;
  std::string describe_progress(const Running& running) const;
  // The ranks that its current steps wait for, ascending.
  std::vector<Rank> waits_for(const Running& running) const;
  FailureText text() const { return FailureText(spec_); }

  Transport& transport_;
  const EngineOptions& options_;
  GroupSpec spec_;
  const HostLayout hosts_;
  std::vector<OperationPtr>& completed_;
  std::optional<Messenger> messenger_;  // none after leave()
  ExecutionContext context_;
  GroupFailure failure_;
  PendingOperations operations_;

  uint64_t last_sequence_;
  uint64_t last_point_to_point_ = 0;
  uint64_t last_order_ = 0;
  Fingerprint last_done_{};  // of the collective that was completed last
  uint64_t last_done_sequence_ = 0;
  uint64_t pending_ = 0;  // submitted and not complete
  MessageNumbers numbers_;
  AnySource any_source_;  // receives that wait for a source
  TagRetirement retirement_;
  std::vector<uint32_t> held_sends_;  // their places, as they were posted
  RollCall roll_call_;                // after a deadline has passed
  // How far fail_from_lost() has looked: the number of lost ranks, and the last operation by order.
  size_t lost_seen_ = 0;
  uint64_t order_seen_ = 0;
  WaitWatch watch_;
  RollCall watch_roll_;  // of an operation that takes long
};

}  // namespace rocecoll
