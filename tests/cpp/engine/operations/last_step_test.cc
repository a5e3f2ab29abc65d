// SPDX-License-Identifier: Apache-2.0
// A caller that has what it waited for computes, perhaps for long, and nobody steps its engine
// meanwhile: the others must not wait for what it sent last, or for its word that it has theirs.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "engine/call.h"
#include "engine/engine_cluster.h"
#include "transport/datagram/datagram_transport.h"
#include "transport/sim/event_queue.h"
#include "transport/sim/sim_network.h"
#include "transport/sim/sim_port.h"

namespace rocecoll {
namespace {

// Engines over datagrams that are never lost, whose callers may leave: nobody steps such a rank's
// engine after the step that completed its last operation.
class LeavingCluster final : public EngineCluster {
 public:
  explicit LeavingCluster(uint32_t ranks) : EngineCluster({}, std::chrono::minutes(1)) {
    for (Rank rank = 0; rank < ranks; ++rank) {
      transports_.push_back(
          std::make_unique<DatagramTransport>(network_.add_endpoint(), ConnectionOptions{}));
      add_rank(*transports_.back(), {});
    }
    start();
  }
  ~LeavingCluster() override {
    for (Rank rank = 0; rank < ranks(); ++rank) remove_rank(rank);
  }

  Instant now() const override { return queue_.now(); }
  bool run(const std::function<bool()>& done, Duration limit) override {
    const Instant end = now() + limit;
    while (!done()) {
      if (now() >= end) return false;
      Instant next = end;
      for (Rank rank = 0; rank < ranks(); ++rank) next = std::min(next, visit(rank));
      queue_.run_until(std::max(std::min(next, queue_.next_time()), now() + Duration(1)));
    }
    return true;
  }

  // From now on; each when it has completed so many operations.
  void leave_after(size_t completed) { leave_after_ = completed; }

 private:
  Instant visit(Rank rank) {
    bool moved = true;
    while (moved && completed(rank).size() < leave_after_) {
      moved = engine(rank).step(now());
      take_completed(rank);
    }
    return moved ? kNever : engine(rank).next_deadline();
  }

  EventQueue queue_;
  SimNetwork network_{queue_, 1, SimWire{}};
  std::vector<std::unique_ptr<Transport>> transports_;
  size_t leave_after_ = SIZE_MAX;
};

using Case = std::tuple<Collective, uint64_t, uint32_t>;  // elements, ranks

class LastStep : public testing::TestWithParam<Case> {};

TEST_P(LastStep, OthersDoNotWaitForWhoHasGone) {
  const auto [collective, elements, ranks] = GetParam();
  LeavingCluster cluster(ranks);
  const CallSpec spec{.collective = collective, .elements = elements};
  Call first(cluster, spec);  // opens the links
  first.submit_all();
  ASSERT_TRUE(first.run());
  cluster.settle(std::chrono::milliseconds(100));
  cluster.leave_after(2);
  Call second(cluster, spec);
  second.submit_all();
  ASSERT_TRUE(cluster.run_until_done(second.operations(), std::chrono::milliseconds(20)));
  second.check();
}

// Nor where the call is the first, which opens the links.
TEST_P(LastStep, OthersDoNotWaitForWhoHasGoneAfterFirstContact) {
  const auto [collective, elements, ranks] = GetParam();
  LeavingCluster cluster(ranks);
  cluster.leave_after(1);
  Call call(cluster, {.collective = collective, .elements = elements});
  call.submit_all();
  ASSERT_TRUE(cluster.run_until_done(call.operations(), std::chrono::milliseconds(100)));
  call.check();
}

// Within the eager limit, above it, and with several lanes.
INSTANTIATE_TEST_SUITE_P(
    All, LastStep,
    testing::Combine(testing::Values(Collective::kBroadcast, Collective::kReduce,
                                     Collective::kAllreduce, Collective::kAllgather,
                                     Collective::kReduceScatter, Collective::kAlltoall,
                                     Collective::kGather, Collective::kScatter),
                     testing::Values(2, 30'000, 400'000), testing::Values(2, 3, 4, 7)),
    [](const auto& info) {
      return std::string(ToString(std::get<0>(info.param))) + "Of" +
             std::to_string(std::get<1>(info.param)) + "Between" +
             std::to_string(std::get<2>(info.param));
    });

}  // namespace
}  // namespace rocecoll
