// SPDX-License-Identifier: Apache-2.0
// One process group: numbers its operations, admits them in order, watches deadlines, and fails as
// a whole. Belongs to the engine.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "collectives/host_layout.h"
#include "engine/groups/failure_text.h"
#include "engine/groups/gone_groups.h"
#include "engine/groups/group_spec.h"
#include "engine/groups/group_state.h"
#include "engine/groups/notice.h"
#include "engine/groups/peer_stats.h"
#include "engine/groups/roll_call.h"
#include "engine/groups/wait_watch.h"
#include "engine/operations/engine_options.h"
#include "engine/operations/execution.h"
#include "engine/operations/operation.h"
#include "engine/operations/plan.h"
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
  // `peer`, which anybody may have named, opens its side of our link.
  void on_incoming(Instant now, Rank peer);
  void on_notice(const AbortNotice& notice);
  void on_notice(const RollCallNotice& notice);
  void on_notice(const LeftNotice& notice);
  bool step(Instant now);
  // Operations that are done, but for what they sent last: it has yet to leave this process, so
  // that its end would take it along.
  bool has_leaving() const { return !leaving_.empty(); }
  // Completes those of which it has left since. True if there were some.
  bool complete_left();
  // This process did not run for so long, which no deadline counts.
  void on_pause(Duration length);
  // Fails the group for good. `cause` without prefix; also what the other ranks are told.
  void fail(StatusCode code, const std::string& cause);
  // As fail(), where the message is the caller's own.
  void abort(const Status& why);
  // Ends in good order: what is pending fails with kAborted, links close, nobody is told.
  void leave();
  // After it: what to tell ranks that come later.
  PartingWord parting_word() const;

  void set_timeout(Duration timeout) { spec_.timeout = timeout; }
  const Status& status() const { return status_; }
  GroupState state(Instant now) const;
  // `group "0": all_reduce #3 (SUM, float32, 4 elements) waits for rank 1 (10.0.0.3:40123)`, of one
  // that is pending; empty: it is not.
  std::string describe_wait(const Operation& operation) const;
  bool has_pending() const { return pending_ > 0; }
  Instant next_deadline() const;
  const GroupSpec& spec() const { return spec_; }
  // One for each rank that there is a link to; none after a failure.
  std::vector<PeerStats> peer_stats(Instant now) const;

 private:
  // The tag of a receive from any source until its source is known, and of a send that is held back
  // while its user's tag is being retired.
  static constexpr uint64_t kNoTag = UINT64_MAX;
  // Submitted, perhaps not yet running.
  struct Entry {
    OperationPtr operation;
    Plan plan;
    Fingerprint fingerprint{};
    uint64_t tag_operation = 0;
    uint64_t order = 0;  // of submission
    Instant submitted{};
    Instant deadline = kNever;
  };
  struct Running {
    explicit Running(const ExecutionContext& context) : execution(context) {}
    Entry entry;
    Execution execution;
    std::vector<MessageCompletion> leaving;  // what it sent that had not left then
    bool done = false;                       // but for that
  };

  bool is_collective(const Entry& entry) const {
    return !IsPointToPoint(entry.operation->spec().collective);
  }
  static bool is_barrier(const Entry& entry) {
    return entry.operation->spec().collective == Collective::kBarrier;
  }
  uint64_t next_tag(const OperationSpec& spec);
  // Gives the entry a place in running_; begin() then runs it.
  uint32_t place(Entry entry);
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
  void complete_all(const Status& status);
  void fail_with(Status shown, const Status& report);
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
  // Warns about ranks that are silent and about operations that take long (group_failure.cc).
  void look_at_waits(Instant now);
  void tell_of_long_wait(Instant now, const Running& oldest,
                         const std::vector<AwaitedRank>& awaited);
  void check_deadlines(Instant now);
  Instant next_timeout() const {
    return roll_call_.active() ? roll_call_.next_look() : earliest_deadline_;
  }
  // The running operation with this tag, else the oldest one; null when none runs.
  const Running* find(uint64_t tag_operation) const;
  const Running* find_late(Instant now) const;
  std::string describe(const Running& running) const;
  std::string describe_progress(const Running& running) const;
  // The ranks that its current steps wait for, ascending.
  std::vector<Rank> waits_for(const Running& running) const;
  FailureText text() const { return FailureText(spec_); }
  bool flood(Instant now);
  void flood_once();

  Transport& transport_;
  const EngineOptions& options_;
  GroupSpec spec_;
  const HostLayout hosts_;
  std::vector<OperationPtr>& completed_;
  std::optional<Messenger> messenger_;  // none after leave()
  ExecutionContext context_;
  Status status_;

  uint64_t last_sequence_;
  uint64_t last_point_to_point_ = 0;
  uint64_t last_order_ = 0;
  Fingerprint last_done_{};  // of the collective that was completed last
  uint64_t last_done_sequence_ = 0;
  uint64_t pending_ = 0;  // submitted and not complete
  MessageNumbers numbers_;
  AnySource any_source_;  // receives that wait for a source
  TagRetirement retirement_;
  std::vector<uint32_t> held_sends_;               // indices into running_, as they were posted
  std::deque<Entry> queue_;                        // collectives not yet admitted
  std::vector<std::unique_ptr<Running>> running_;  // by token; free ones are kept
  std::vector<uint32_t> free_;
  std::vector<uint32_t> collectives_;   // indices into running_, in order of admission
  std::vector<uint32_t> leaving_;       // see has_leaving()
  std::vector<uint32_t> staged_;        // those with staged memory, in order of their start
  Instant earliest_deadline_ = kNever;  // no pending operation has an earlier one
  RollCall roll_call_;                  // after a deadline has passed
  // What fail_from_lost() has looked at: so many lost ranks, and operations up to this order.
  size_t lost_seen_ = 0;
  uint64_t order_seen_ = 0;
  WaitWatch watch_;
  RollCall watch_roll_;  // of an operation that takes long

  // The abort notice, sent several times as it may be lost.
  std::vector<std::byte> notice_;
  int floods_left_ = 0;
  Instant next_flood_{};
};

}  // namespace rocecoll
