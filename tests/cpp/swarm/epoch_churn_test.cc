// SPDX-License-Identifier: Apache-2.0
// Attempts one after another while processes end and start again at their old addresses, the
// network parts and heals, and members come late or were told another list: seed by seed.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/run_choice.h"
#include "conformance/world_cluster.h"
#include "swarm/epoch_wires.h"
#include "swarm/epochs.h"
#include "swarm/recorded_world.h"

namespace rocecoll {
namespace {

class Churn {
 public:
  static constexpr uint32_t kRanks = 5;
  static constexpr uint64_t kTurns = 8;

  Churn(std::unique_ptr<RecordedWorld> world, uint64_t seed)
      : world_(*world), cluster_(std::move(world)), epochs_(cluster_), random_(~seed) {
    epochs_.on_round = [this] { bury(); };
    world_.network.set_report_unreachable(random_.chance(0.5));
  }

  void run() {
    for (uint64_t uuid = 1; uuid <= kTurns; ++uuid) {
      disturb();
      attempt(uuid);
      if (testing::Test::HasFailure()) return;
    }
    world_.network.set_partition(2, false);
    bury();
    revive();
    for (RecordingPort* port : world_.ports) port->end_after(UINT64_MAX);
    const Members all{0, 1, 2, 3, 4};
    epochs_.all_come(kTurns + 1, all, kAttemptTime);
    ASSERT_TRUE(epochs_.run(kAttemptTime));
    for (const Rank rank : all) {
      ASSERT_TRUE(epochs_.result(rank).ok()) << epochs_.result(rank).message();
      EXPECT_EQ(cluster_.engine(rank).state().groups, 1u);
      epochs_.sum(rank);
    }
    ASSERT_TRUE(epochs_.run(kAttemptTime));
    for (const Rank rank : all) EXPECT_TRUE(epochs_.result(rank).ok());
  }

  uint64_t passed() const { return passed_; }
  uint64_t failed() const { return failed_; }

 private:
  void bury() {
    for (Rank rank = 0; rank < kRanks; ++rank) {
      if (dead_[rank] || !world_.ports[rank]->ended()) continue;
      dead_[rank] = true;
      cluster_.kill(rank);
      epochs_.forget(rank);
    }
  }
  void revive() {
    for (Rank rank = 0; rank < kRanks; ++rank) {
      if (!dead_[rank]) continue;
      dead_[rank] = false;
      world_.restart(rank);
      cluster_.take_successor(rank);
    }
  }
  // What goes wrong from this moment on.
  void disturb() {
    if (random_.chance(0.3)) {
      const auto victim = static_cast<Rank>(random_.below(kRanks));
      if (!dead_[victim]) world_.ports[victim]->end_after(random_.below(12));
    }
    if (random_.chance(0.5)) revive();
    if (random_.chance(0.3)) world_.network.set_partition(2, random_.chance(0.5));
  }
  Members draw_list() {
    Members list;
    for (Rank rank = 0; rank < kRanks; ++rank) {
      if (!dead_[rank] && random_.chance(0.8)) list.push_back(rank);
    }
    for (size_t i = list.size(); i > 1; --i) std::swap(list[i - 1], list[random_.below(i)]);
    return list;
  }
  void attempt(uint64_t uuid) {
    std::vector<Members> told(kRanks);
    const Members list = draw_list();
    const Members other = draw_list();
    for (const Rank rank : list) told[rank] = list;
    if (random_.chance(0.2)) {
      for (const Rank rank : other) told[rank] = random_.chance(0.5) ? other : told[rank];
    }
    std::vector<uint64_t> homes(kRanks);
    std::vector<bool> came(kRanks);
    for (const Rank rank : list) {
      cluster_.settle(Duration(static_cast<int64_t>(random_.below(50'000'000))));
      if (dead_[rank]) continue;
      homes[rank] = epochs_.home_uuid(rank);
      came[rank] = true;
      epochs_.come(rank, uuid, told[rank], kAttemptTime);
    }
    ASSERT_TRUE(epochs_.run(kAttemptTime + kTellingTime)) << "somebody hangs";
    for (const Rank rank : list) {
      if (came[rank] && !dead_[rank]) expect_fair(rank, uuid, homes[rank], told, came);
    }
  }
  void expect_fair(Rank rank, uint64_t uuid, uint64_t home, const std::vector<Members>& told,
                   const std::vector<bool>& came) {
    const bool passed = epochs_.result(rank).ok();
    EXPECT_EQ(epochs_.home_uuid(rank), passed ? uuid : home);
    EXPECT_EQ(cluster_.engine(rank).state().groups, passed || epochs_.home(rank) != 0 ? 1u : 0u);
    ++(passed ? passed_ : failed_);
    if (!passed) return;
    for (const Rank member : told[rank]) {
      EXPECT_TRUE(came[member] && told[member] == told[rank])
          << "attempt " << uuid << " passed on rank " << rank << " without rank " << member;
    }
  }

  RecordedWorld& world_;
  WorldCluster cluster_;
  Epochs epochs_;
  Random random_;
  std::vector<bool> dead_ = std::vector<bool>(kRanks);
  uint64_t passed_ = 0;
  uint64_t failed_ = 0;
};

TEST(EpochFaults, Churn) {
  const uint64_t seeds = IsNightly() ? 300 : 40;
  uint64_t passed = 0, failed = 0;
  for (const EpochWire& wire : EpochWires()) {
    for (uint64_t seed = 1; seed <= seeds; ++seed) {
      SCOPED_TRACE(testing::Message() << wire.name << ", seed " << seed);
      Churn churn(std::make_unique<RecordedWorld>(Churn::kRanks, wire.wire, seed), seed);
      churn.run();
      ASSERT_FALSE(HasFailure());
      passed += churn.passed();
      failed += churn.failed();
    }
  }
  EXPECT_GT(passed, 10 * seeds);
  EXPECT_GT(failed, 10 * seeds);
}

}  // namespace
}  // namespace rocecoll
