// SPDX-License-Identifier: Apache-2.0
#include "torch/backend/monitored_barrier.h"

#include <string>
#include <vector>

#include "base/monotonic_clock.h"
#include "interpreter/process_end.h"
#include "interpreter/signals.h"
#include "torch/process/errors.h"
#include "torch/tensors/own_tags.h"

namespace rocecoll::torch_adapter {
namespace {

using std::chrono::milliseconds;

std::string Milliseconds(Duration limit) {
  return std::to_string(std::chrono::duration_cast<milliseconds>(limit).count()) + " ms";
}

}  // namespace

Result<OperationPtr> MonitoredBarrier::exchange_token(Collective collective, Rank peer,
                                                      Duration timeout) const {
  OperationSpec spec = group_.facts.spec(collective, c10d::kUnsetTimeout);
  spec.timeout = timeout;
  spec.root = peer;
  spec.user_tag = kMonitoredBarrierTag;
  OperationBuffer& buffer = collective == Collective::kSend ? spec.input : spec.output;
  buffer.partition = Partition::Even(0, 1);  // a message without elements
  auto operation = std::make_shared<Operation>(std::move(spec), nullptr);
  const Status status =
      ProgressOf(runtime_).submit(group_.group, operation, Progress::Next::kGoesOn);
  if (!status.ok()) return status;
  return operation;
}

Status MonitoredBarrier::await_token(const Result<OperationPtr>& token, Patience& patience) const {
  if (!token.ok()) return token.status();
  return ProgressOf(runtime_).wait(token.value(), patience, RunSignalHandlers);
}

void MonitoredBarrier::run(Duration limit, bool wait_all_ranks) const {
  try {
    if (group_.rank() == 0) {
      await_all_ranks(limit, wait_all_ranks);
    } else {
      report_to_first_rank(limit);
    }
  } catch (const pybind11::error_already_set&) {
    // The tokens left behind would be taken for those of the next barrier.
    ProgressOf(runtime_).abort(group_.group, Status(StatusCode::kAborted, interruption()));
    throw;
  }
}

std::string MonitoredBarrier::interruption() const {
  return "ProcessGroupRocecoll::monitoredBarrier: the handler of a signal ended it on rank " +
         group_.global_name(group_.rank());
}

// The first rank may come as late as the group's timeout allows, and then waits for as long as its
// caller does. It may also have failed the group before this rank comes; the message is the same.
void MonitoredBarrier::report_to_first_rank(Duration limit) const {
  const Duration timeout = After(Instant(group_timeout_), limit).time_since_epoch();
  Status status = exchange_token(Collective::kSend, 0, timeout).status();
  if (status.ok()) {
    Patience patience(MonotonicNow(), Duration::max());
    status = await_token(exchange_token(Collective::kRecv, 0, timeout), patience);
  }
  if (status.ok()) return;
  Throw(Status(status.code(), "ProcessGroupRocecoll::monitoredBarrier: Rank " +
                                  group_.global_name(group_.rank()) +
                                  " successfully reached monitoredBarrier, but received errors "
                                  "while waiting for send/recv from rank " +
                                  group_.global_name(0) + ": " + status.message()));
}

void MonitoredBarrier::await_all_ranks(Duration limit, bool wait_all_ranks) const {
  Patience patience(MonotonicNow(), limit);
  std::vector<Result<OperationPtr>> tokens;
  for (Rank peer = 1; peer < group_.facts.ranks(); ++peer) {
    // The limit below ends the wait: a deadline of the token itself would name one rank at most.
    tokens.push_back(exchange_token(Collective::kRecv, peer, Duration::max()));
  }
  std::string missing;
  Status status;
  for (Rank peer = 1; peer < group_.facts.ranks(); ++peer) {
    const Status came = await_token(tokens[peer - 1], patience);
    if (came.ok()) continue;
    if (status.ok()) status = came;
    missing += (missing.empty() ? "" : ", ") + group_.global_name(peer);
    if (!wait_all_ranks) break;
  }
  if (status.ok()) {
    for (Rank peer = 1; peer < group_.facts.ranks(); ++peer) {
      const Status sent = exchange_token(Collective::kSend, peer, group_timeout_).status();
      if (!sent.ok()) Throw(sent);
    }
    return;
  }
  // gloo's words, which callers look for.
  std::string failed = (wait_all_ranks ? "Ranks " : "Rank ") + missing +
                       " failed to pass monitoredBarrier in " + Milliseconds(limit);
  if (limit == Duration{0}) {
    failed = "Rank " + group_.global_name(0) + " timed out in monitoredBarrier after " +
             Milliseconds(limit);
  }
  const Status group_status = ProgressOf(runtime_).group_status(group_.group);
  if (!group_status.ok()) failed += "; the group has failed: " + group_status.message();
  const Status shown(status.code(), "ProcessGroupRocecoll::monitoredBarrier: " + failed);
  ProgressOf(runtime_).abort(group_.group, shown);
  Throw(shown);
}

}  // namespace rocecoll::torch_adapter
