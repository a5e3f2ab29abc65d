// SPDX-License-Identifier: Apache-2.0
// A barrier that says who is missing: every rank sends a token to rank 0, which answers all of them
// when all have come.
#include <string>
#include <vector>

#include "base/monotonic_clock.h"
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

OperationPtr Backend::exchange_token(Collective collective, Rank peer) {
  OperationSpec spec = facts_.spec(collective, c10d::kUnsetTimeout);
  spec.root = peer;
  spec.user_tag = kToken;
  OperationBuffer& buffer = collective == Collective::kSend ? spec.input : spec.output;
  buffer.partition = Partition::Even(0, 1);  // a message without elements
  auto operation = std::make_shared<Operation>(std::move(spec), nullptr);
  const Status status = ProgressOf(*runtime_).submit(group_, operation, true);
  if (!status.ok()) Throw(status);
  return operation;
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
      report_to_rank_zero(Saturated(limit));
    }
  } catch (const std::exception& error) {
    if (record) record->end(error.what());
    throw;
  }
  if (record) record->end("");
}

void Backend::report_to_rank_zero(Duration limit) {
  Patience patience(MonotonicNow(), limit);
  exchange_token(Collective::kSend, 0);
  const OperationPtr answer = exchange_token(Collective::kRecv, 0);
  Status status = ProgressOf(*runtime_).wait(answer, patience);
  if (status.ok()) return;
  if (!answer->done()) status = Status(StatusCode::kTimeout, "no answer in " + Milliseconds(limit));
  const Status shown(status.code(), "ProcessGroupRocecoll::monitoredBarrier: Rank " +
                                        std::to_string(rank_) +
                                        " successfully reached monitoredBarrier, but received "
                                        "errors while waiting for send/recv from rank 0: " +
                                        status.message());
  ProgressOf(*runtime_).abort(group_, shown);
  Throw(shown);
}

void Backend::await_all_ranks(Duration limit, bool wait_all_ranks) {
  Patience patience(MonotonicNow(), limit);
  std::vector<OperationPtr> tokens;
  for (Rank peer = 1; peer < facts_.ranks(); ++peer) {
    tokens.push_back(exchange_token(Collective::kRecv, peer));
  }
  std::string failed;
  Status status;
  for (Rank peer = 1; peer < facts_.ranks(); ++peer) {
    const OperationPtr& token = tokens[peer - 1];
    Status came = ProgressOf(*runtime_).wait(token, patience);
    if (came.ok()) continue;
    if (limit == Duration{0}) {
      failed = "Rank 0 timed out in monitoredBarrier after 0 ms";
      status = came;
      break;
    }
    if (status.ok()) status = came;
    // gloo's words, which callers look for.
    const char* first = wait_all_ranks ? "Ranks " : "Rank ";
    failed += (failed.empty() ? first : ", ") + std::to_string(peer);
    if (!wait_all_ranks) break;
  }
  if (status.ok()) {
    for (Rank peer = 1; peer < facts_.ranks(); ++peer) exchange_token(Collective::kSend, peer);
    return;
  }
  if (limit > Duration{0}) failed += " failed to pass monitoredBarrier in " + Milliseconds(limit);
  const Status shown(status.code(), "ProcessGroupRocecoll::monitoredBarrier: " + failed);
  ProgressOf(*runtime_).abort(group_, shown);
  Throw(shown);
}

}  // namespace rocecoll::torch_adapter
