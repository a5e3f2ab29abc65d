// SPDX-License-Identifier: Apache-2.0
// A barrier that names the ranks that are missing: every rank sends a token to the group's first
// rank, which answers all of them once all have come. Only the first rank keeps the caller's limit,
// as with gloo: another rank that gave up first could name nobody. Messages have global ranks.
#include <string>
#include <vector>

#include "base/monotonic_clock.h"
#include "interpreter/process_end.h"
#include "interpreter/signals.h"
#include "torch/backend/backend.h"
#include "torch/process/errors.h"

namespace rocecoll::torch_adapter {
namespace {

using std::chrono::milliseconds;

constexpr uint32_t kToken = Tag::kLargestUserTag;  // a tag that users are unlikely to take

std::string Milliseconds(Duration limit) {
  return std::to_string(std::chrono::duration_cast<milliseconds>(limit).count()) + " ms";
}

}  // namespace

Result<OperationPtr> Backend::exchange_token(Collective collective, Rank peer, Duration timeout) {
  OperationSpec spec = facts_.spec(collective, c10d::kUnsetTimeout);
  spec.timeout = timeout;
  spec.root = peer;
  spec.user_tag = kToken;
  OperationBuffer& buffer = collective == Collective::kSend ? spec.input : spec.output;
  buffer.partition = Partition::Even(0, 1);  // a message without elements
  auto operation = std::make_shared<Operation>(std::move(spec), nullptr);
  const Status status = ProgressOf(*runtime_).submit(group_, operation, Progress::Next::kGoesOn);
  if (!status.ok()) return status;
  return operation;
}

Status Backend::await_token(const Result<OperationPtr>& token, Patience& patience) {
  if (!token.ok()) return token.status();
  return ProgressOf(*runtime_).wait(token.value(), patience, RunSignalHandlers);
}

void Backend::monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) {
  const milliseconds limit =
      options.timeout == c10d::kUnsetTimeout ? timeout_.load() : options.timeout;
  Request request(c10d::OpType::BARRIER, "rocecoll:monitored_barrier", {}, {}, false);
  request.specs.push_back(facts_.spec(Collective::kBarrier, limit));
  const CallRecordPtr record = observe(request);
  if (record) record->start();
  try {
    if (rank_ == 0) {
      await_all_ranks(Saturated(limit), wait_all_ranks);
    } else {
      report_to_first_rank(Saturated(limit));
    }
  } catch (const pybind11::error_already_set& raised) {
    // The tokens left behind would be taken for those of the next barrier.
    const std::string why =
        "ProcessGroupRocecoll::monitoredBarrier: the handler of a signal ended it on rank " +
        global_name(static_cast<Rank>(rank_));
    ProgressOf(*runtime_).abort(group_, Status(StatusCode::kAborted, why));
    if (record) record->end(why);
    throw;
  } catch (const std::exception& error) {
    if (record) record->end(error.what());
    if (!CompletionPool::serves_here()) ProcessEnd::instance().hold_back(false);
    throw;
  }
  if (record) record->end("");
}

std::string Backend::global_name(Rank group_rank) const {
  return std::to_string((*global_ranks_)[group_rank]);
}

// The first rank may come as late as the group's timeout allows, and then waits for as long as its
// caller does. It may also have failed the group before this rank comes; the message is the same.
void Backend::report_to_first_rank(Duration limit) {
  const Duration group_timeout = Saturated(timeout_.load());
  const Duration timeout = After(Instant(group_timeout), limit).time_since_epoch();
  Status status = exchange_token(Collective::kSend, 0, timeout).status();
  if (status.ok()) {
    Patience patience(MonotonicNow(), Duration::max());
    status = await_token(exchange_token(Collective::kRecv, 0, timeout), patience);
  }
  if (status.ok()) return;
  Throw(Status(status.code(), "ProcessGroupRocecoll::monitoredBarrier: Rank " +
                                  global_name(static_cast<Rank>(rank_)) +
                                  " successfully reached monitoredBarrier, but received errors "
                                  "while waiting for send/recv from rank " +
                                  global_name(0) + ": " + status.message()));
}

void Backend::await_all_ranks(Duration limit, bool wait_all_ranks) {
  Patience patience(MonotonicNow(), limit);
  std::vector<Result<OperationPtr>> tokens;
  for (Rank peer = 1; peer < facts_.ranks(); ++peer) {
    // The limit below ends the wait: a deadline of the token itself would name one rank at most.
    tokens.push_back(exchange_token(Collective::kRecv, peer, Duration::max()));
  }
  std::string missing;
  Status status;
  for (Rank peer = 1; peer < facts_.ranks(); ++peer) {
    const Status came = await_token(tokens[peer - 1], patience);
    if (came.ok()) continue;
    if (status.ok()) status = came;
    missing += (missing.empty() ? "" : ", ") + global_name(peer);
    if (!wait_all_ranks) break;
  }
  if (status.ok()) {
    const Duration timeout = Saturated(timeout_.load());
    for (Rank peer = 1; peer < facts_.ranks(); ++peer) {
      const Status sent = exchange_token(Collective::kSend, peer, timeout).status();
      if (!sent.ok()) Throw(sent);
    }
    return;
  }
  // gloo's words, which callers look for.
  std::string failed = (wait_all_ranks ? "Ranks " : "Rank ") + missing +
                       " failed to pass monitoredBarrier in " + Milliseconds(limit);
  if (limit == Duration{0}) {
    failed =
        "Rank " + global_name(0) + " timed out in monitoredBarrier after " + Milliseconds(limit);
  }
  const Status group_status = ProgressOf(*runtime_).group_status(group_);
  if (!group_status.ok()) failed += "; the group has failed: " + group_status.message();
  const Status shown(status.code(), "ProcessGroupRocecoll::monitoredBarrier: " + failed);
  ProgressOf(*runtime_).abort(group_, shown);
  Throw(shown);
}

}  // namespace rocecoll::torch_adapter
