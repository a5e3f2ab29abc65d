// SPDX-License-Identifier: Apache-2.0
// A barrier that names the ranks that are missing: every rank sends a token to the group's first
// rank, which answers all of them once all have come. Only the first rank keeps the caller's limit,
// as with gloo: another rank that gave up first could name nobody. Messages have global ranks.
#pragma once

#include <string>

#include "base/time.h"
#include "engine/progress/progress.h"
#include "torch/backend/membership.h"

namespace rocecoll::torch_adapter {

class MonitoredBarrier {
 public:
  // Both outlive it. `group_timeout` is how late the first rank may come.
  MonitoredBarrier(const Membership& group, const Runtime& runtime, Duration group_timeout)
      : group_(group), runtime_(runtime), group_timeout_(group_timeout) {}

  // Throws on every rank if a rank does not come within the `limit` of the first one, and fails the
  // group. Without `wait_all_ranks` the first rank names the first one that is missing only.
  void run(Duration limit, bool wait_all_ranks) const;
  // What the others are told when run() throws what the handler of a signal has raised.
  std::string interruption() const;

 private:
  Result<OperationPtr> exchange_token(Collective collective, Rank peer, Duration timeout) const;
  Status await_token(const Result<OperationPtr>& token, Patience& patience) const;
  void report_to_first_rank(Duration limit) const;
  void await_all_ranks(Duration limit, bool wait_all_ranks) const;

  const Membership& group_;
  const Runtime& runtime_;
  const Duration group_timeout_;
};

}  // namespace rocecoll::torch_adapter
