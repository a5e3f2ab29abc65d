// SPDX-License-Identifier: Apache-2.0
// Attempts in which a member dies, or which a partition cuts in two: nobody waits longer than its
// timeout, whoever fails keeps its home, and whoever is left can go on together.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <memory>

#include "base/random.h"
#include "conformance/world_cluster.h"
#include "swarm/epoch_wires.h"
#include "swarm/epochs.h"
#include "swarm/recorded_world.h"

namespace rocecoll {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

struct Processes {
  Processes(uint32_t ranks, const SimWire& wire, uint64_t seed)
      : Processes(std::make_unique<RecordedWorld>(ranks, wire, seed)) {}
  explicit Processes(std::unique_ptr<RecordedWorld> owned)
      : world(*owned), cluster(std::move(owned)), epochs(cluster) {}

  // An attempt of these and a call after it, where everything is well.
  void expect_all_pass(uint64_t uuid, const Members& members) {
    epochs.all_come(uuid, members, kAttemptTime);
    ASSERT_TRUE(epochs.run(kAttemptTime));
    for (const Rank rank : members) {
      ASSERT_TRUE(epochs.result(rank).ok()) << epochs.result(rank).message();
      EXPECT_EQ(cluster.engine(rank).state().groups, 1u);
    }
    expect_sums(members);
  }
  void expect_sums(const Members& members) {
    for (const Rank rank : members) epochs.sum(rank);
    ASSERT_TRUE(epochs.run(seconds(5)));
    for (const Rank rank : members) {
      EXPECT_TRUE(epochs.result(rank).ok()) << epochs.result(rank).message();
    }
  }
  // Between two members of a home that may have lost others.
  void expect_message(Rank from, Rank to) {
    int32_t sent = 5, received = 0;
    OperationSpec send;
    send.collective = Collective::kSend;
    send.type = DataType::kInt32;
    send.root = to;
    send.input = {&sent, Partition::Even(1, 1)};
    OperationSpec recv = send;
    recv.collective = Collective::kRecv;
    recv.root = from;
    recv.output = {&received, recv.input.partition};
    recv.input = {};
    const std::vector<OperationPtr> both{cluster.submit(from, send, epochs.home(from)),
                                         cluster.submit(to, recv, epochs.home(to))};
    ASSERT_TRUE(cluster.run_until_done(both, seconds(5)));
    EXPECT_TRUE(both[0]->status().ok() && both[1]->status().ok());
    EXPECT_EQ(received, 5);
    cluster.forget_completed();
  }

  RecordedWorld& world;
  WorldCluster cluster;
  Epochs epochs;
};

// How often something passed on as many ranks.
using PassedOn = std::array<uint64_t, 5>;

// An attempt of all in which `victim` ends after `packets` datagrams. True if it ended before it
// was through: `passed_on` counts the survivors.
bool EndsWithin(Rank victim, uint64_t packets, const EpochWire& wire, bool reported,
                PassedOn& passed_on) {
  SCOPED_TRACE(testing::Message() << wire.name << (reported ? ", reported" : "") << ": rank "
                                  << victim << " ends after " << packets << " packets");
  Processes processes(3, wire.wire, 100 * packets + victim + 1);
  processes.world.network.set_report_unreachable(reported);
  WorldCluster& cluster = processes.cluster;
  Epochs& epochs = processes.epochs;
  const Members all{0, 1, 2};
  processes.expect_all_pass(1, all);
  RecordingPort* port = processes.world.ports[victim];
  bool dead = false;
  epochs.on_round = [&] {
    if (dead || !port->ended()) return;
    dead = true;
    cluster.kill(victim);
    epochs.forget(victim);
  };
  epochs.all_come(2, all, kAttemptTime);
  port->end_after(packets);
  EXPECT_TRUE(epochs.run(kAttemptTime + kTellingTime)) << "somebody hangs";
  if (!dead) return false;
  Members left;
  for (const Rank rank : all) {
    if (rank != victim) left.push_back(rank);
  }
  const std::string name = "rank " + std::to_string(victim);
  size_t passed = 0;
  for (const Rank rank : left) {
    const Status& result = epochs.result(rank);
    EXPECT_EQ(epochs.home_uuid(rank), result.ok() ? 2u : 1u);
    EXPECT_TRUE(cluster.engine(rank).group_status(epochs.home(rank)).ok());
    EXPECT_EQ(cluster.engine(rank).state().groups, 1u);
    if (result.ok()) {
      ++passed;
    } else {
      EXPECT_NE(result.message().find(name), std::string::npos) << result.message();
    }
  }
  ++passed_on[passed];
  if (epochs.home_uuid(left[0]) == epochs.home_uuid(left[1])) {
    processes.expect_message(left[0], left[1]);
  }
  processes.expect_all_pass(3, left);
  return true;
}

// Every point of an attempt, for every member.
TEST(EpochFaults, AMemberEndsAfterAnyPacketOfAnAttempt) {
  PassedOn passed_on{};
  for (const bool reported : {false, true}) {
    for (const EpochWire& wire : EpochWires()) {
      for (Rank victim = 0; victim < 3; ++victim) {
        uint64_t packets = 0;
        while (EndsWithin(victim, packets, wire, reported, passed_on)) {
          ASSERT_FALSE(HasFailure());
          ++packets;
        }
        EXPECT_GE(packets, 4u) << "the steps of a barrier";
      }
    }
  }
  for (const size_t survivors : {0, 1, 2}) EXPECT_GT(passed_on[survivors], 0u) << survivors;
  std::printf("ended: passed on 0 to 2 survivors: %s\n", testing::PrintToString(passed_on).c_str());
}

// Each half makes a group of its own, and after the partition both make one. `passed_on` counts the
// attempt that was cut.
void PartAndMerge(const EpochWire& wire, uint64_t seed, PassedOn& passed_on) {
  SCOPED_TRACE(testing::Message() << wire.name << ", seed " << seed);
  Random random(seed);
  Processes processes(4, wire.wire, seed);
  Epochs& epochs = processes.epochs;
  const Members all{0, 1, 2, 3};
  const std::array<Members, 2> halves{Members{0, 1}, Members{3, 2}};
  processes.expect_all_pass(1, all);
  epochs.all_come(2, all, kAttemptTime);
  // Most attempts take some round trips of 20 us.
  processes.world.queue.schedule(
      processes.cluster.now() + std::chrono::microseconds(random.below(100)),
      [&] { processes.world.network.set_partition(2, true); });
  ASSERT_TRUE(epochs.run(kAttemptTime + kTellingTime)) << "somebody hangs";
  size_t passed = 0;
  for (const Rank rank : all) {
    EXPECT_TRUE(processes.cluster.engine(rank).group_status(epochs.home(rank)).ok());
    EXPECT_EQ(epochs.home_uuid(rank), epochs.result(rank).ok() ? 2u : 1u);
    if (epochs.result(rank).ok()) ++passed;
  }
  ++passed_on[passed];
  processes.cluster.settle(milliseconds(random.below(20'000)));
  for (const Members& half : halves) processes.expect_all_pass(3, half);
  processes.cluster.settle(milliseconds(random.below(20'000)));
  // An attempt across the partition fails, and both halves stay.
  epochs.all_come(4, all, kAttemptTime);
  ASSERT_TRUE(epochs.run(kAttemptTime + kTellingTime)) << "somebody hangs";
  for (const Rank rank : all) {
    EXPECT_FALSE(epochs.result(rank).ok());
    EXPECT_EQ(epochs.home_uuid(rank), 3u);
  }
  for (const Members& half : halves) processes.expect_sums(half);
  processes.world.network.set_partition(2, false);
  for (const Members& half : halves) processes.expect_sums(half);
  processes.expect_all_pass(5, all);
  for (const Rank rank : all) EXPECT_EQ(processes.cluster.engine(rank).state().groups, 1u);
}

TEST(EpochFaults, HalvesOfAPartitionMerge) {
  PassedOn passed_on{};
  for (const EpochWire& wire : EpochWires()) {
    for (uint64_t seed = 1; seed <= 20; ++seed) {
      PartAndMerge(wire, seed, passed_on);
      ASSERT_FALSE(HasFailure());
    }
  }
  EXPECT_GT(passed_on[0], 0u);
  EXPECT_GT(passed_on[1] + passed_on[2] + passed_on[3], 0u) << "none was cut on its way";
  EXPECT_GT(passed_on[4], 0u);
  std::printf("cut: passed on 0 to 4 ranks: %s\n", testing::PrintToString(passed_on).c_str());
}

}  // namespace
}  // namespace rocecoll
