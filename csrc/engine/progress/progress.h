// SPDX-License-Identifier: Apache-2.0
// Which thread drives the engine. One background thread per process does while callers compute; a
// caller in wait() drives itself, because a hand-over between threads costs four times a whole
// small all_reduce. Thread safe. Only this and EngineLock read a clock in the core above the ports.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "base/patience.h"
#include "base/status.h"
#include "base/time.h"
#include "engine/engine.h"
#include "engine/operations/operation.h"

namespace rocecoll {

struct ProgressOptions {
  // Busy polling before blocking in ppoll. 0 when there are more local ranks than cores: then the
  // driver yields, which lets the peer on the same core run, until `yield_time` has gone into
  // yields that let no other process run.
  Duration spin_time = std::chrono::microseconds(50);
  Duration yield_time = std::chrono::microseconds(20);
  // Such yields go on for some milliseconds where that pays (idle_wait.h). Only where each rank has
  // a core: the scheduler would take one that yields for one that computes.
  bool patient = true;
  // When a group is removed, for what its links still have to deliver: it goes on behind that.
  Duration leave_linger = std::chrono::seconds(1);
  // At the end, for what closed links still have to deliver; the runtime derives it from the peer
  // timeout. Links that owe nothing but their CLOSE do not take as long.
  Duration final_linger{0};
};

class Progress {
 public:
  // What a caller attends to during a long wait, such as signals.
  using Look = std::function<void()>;
  // People perceive less than 100 ms as at once.
  static constexpr Duration kLookInterval = std::chrono::milliseconds(50);

  // Owns the transport and the engine on it. Starts the thread; std::system_error if there can be
  // none. kNetwork when the process has no descriptor left.
  static Result<std::unique_ptr<Progress>> Start(std::unique_ptr<Transport> transport,
                                                 const EngineOptions& engine,
                                                 const ProgressOptions& options);
  // As shutdown(final_linger), but does not wait until what operations kept alive is released; then
  // joins the thread.
  ~Progress();

  Address address() const;
  Result<GroupId> add_group(GroupSpec spec);
  // Returns once the links of removed groups have closed, or ProgressOptions::leave_linger later,
  // so that a process may end at once: then its peers have what they need.
  void remove_group(GroupId group, const std::string& description = {});
  void set_timeout(GroupId group, Duration timeout);
  Status group_status(GroupId group);
  EngineState state();
  std::vector<GroupState> group_states();
  std::string describe_wait(GroupId group, const Operation& operation);  // as the engine's
  void abort(GroupId group, const Status& why);
  TransportStats stats();
  std::vector<PeerStats> peer_stats();
  // What the caller does next. Unless it waits for the operation, the background thread is woken to
  // take over. If the caller most likely waits, the thread finds out itself a few milliseconds
  // later.
  enum class Next : uint8_t { kGoesOn, kWaits, kLikelyWaits };
  // If another thread drives, that one submits the operation, and a refusal becomes the operation's
  // status.
  Status submit(GroupId group, const OperationPtr& operation, Next next);
  // Submits the operations in order under one lock, so that what they send leaves together. All are
  // checked before the first one starts. At a refusal `accepted` says how many went out.
  Status submit_all(GroupId group, const std::vector<OperationPtr>& operations, size_t& accepted);
  // Operations behind the gate may start now.
  void open(Gate& gate);
  // Drives until the operation is done or `timeout` passed (kTimeout; the operation stays pending).
  // Returns the operation's status. Callable from many threads. `look`, if any, is called each time
  // that kLookInterval of the wait has passed, when this thread does not drive and holds nothing:
  // it may take long, submit and wait itself. What it throws ends the wait, and the operation goes
  // on. It is not called in a callback of an operation, whose thread cannot give up driving.
  Status wait(const OperationPtr& operation, Duration timeout = Duration::max(),
              const Look& look = {});
  // Further waits may use what is left of the patience.
  Status wait(const OperationPtr& operation, Patience& patience, const Look& look = {});
  // Gives closed links at most `limit` to deliver their last frames, and what operations kept alive
  // as long again to be released. The caller must hold no lock that releasing it takes. Idempotent.
  void shutdown(Duration limit);
  void shutdown();  // for final_linger

 private:
  struct Impl;
  explicit Progress(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace rocecoll
