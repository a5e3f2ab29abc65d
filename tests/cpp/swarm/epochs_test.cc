// SPDX-License-Identifier: Apache-2.0
// Groups that follow each other over the same ranks: what is left of the former ones, and attempts
// whose members were told different things.
#include "swarm/epochs.h"

#include <gtest/gtest.h>

#include <memory>

#include "base/random.h"
#include "conformance/world_cluster.h"
#include "datagram/transport_world.h"
#include "swarm/epoch_wires.h"
#include "swarm/recorded_world.h"

namespace rocecoll {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Attempts `first` to `last`, with a sum in each home.
void RunEpochs(Epochs& epochs, const Members& all, uint64_t first, uint64_t last) {
  for (uint64_t uuid = first; uuid <= last; ++uuid) {
    epochs.all_come(uuid, all, kAttemptTime);
    ASSERT_TRUE(epochs.run(kAttemptTime));
    for (const Rank rank : all) ASSERT_TRUE(epochs.result(rank).ok()) << uuid;
    for (const Rank rank : all) epochs.sum(rank);
    ASSERT_TRUE(epochs.run(seconds(5)));
    for (const Rank rank : all) ASSERT_TRUE(epochs.result(rank).ok()) << uuid;
  }
}

// Everything that former epochs sent comes once more, several times and in any order, while the
// next attempt and the calls after it run.
TEST(Epochs, PacketsOfFormerOnesChangeNothing) {
  for (const EpochWire& wire : EpochWires()) {
    for (uint64_t seed = 1; seed <= 10; ++seed) {
      SCOPED_TRACE(testing::Message() << wire.name << ", seed " << seed);
      auto owned = std::make_unique<RecordedWorld>(3, wire.wire, seed);
      RecordedWorld& world = *owned;
      WorldCluster cluster(std::move(owned));
      Epochs epochs(cluster);
      Random random(seed);
      const Members all{0, 1, 2};
      for (RecordingPort* port : world.ports) port->record();
      RunEpochs(epochs, all, 1, 3);
      // With and without the last packets of the links that closed.
      cluster.settle(milliseconds(random.below(2) * 1500));
      std::vector<std::vector<RecordingPort::Datagram>> recorded;
      for (RecordingPort* port : world.ports) recorded.push_back(port->take_recorded());
      epochs.on_round = [&] {
        for (Rank rank = 0; rank < 3; ++rank) {
          for (uint64_t count = random.below(8); count > 0; --count) {
            world.ports[rank]->send_again(recorded[rank][random.below(recorded[rank].size())]);
          }
        }
      };
      RunEpochs(epochs, all, 4, 8);
      ASSERT_FALSE(HasFailure());
      for (const Rank rank : all) {
        EXPECT_EQ(cluster.engine(rank).state().failures, 0u);
        EXPECT_EQ(cluster.engine(rank).state().groups, 1u);
      }
    }
  }
}

// What ranks may be told of one attempt: any list that they are in.
std::vector<Members> ListsWith(Rank rank) {
  std::vector<Members> lists;
  for (const Members& list : {Members{0, 1}, {0, 2}, {1, 2}, {0, 1, 2}, {2, 1, 0}}) {
    if (std::ranges::count(list, rank) > 0) lists.push_back(list);
  }
  return lists;
}

// Whether all members of rank's list were told the same.
bool IsAgreed(const std::vector<Members>& told, Rank rank) {
  return std::ranges::all_of(told[rank], [&](Rank member) { return told[member] == told[rank]; });
}

void ExpectNamesOneThatDiffers(const std::vector<Members>& told, Rank rank, const Status& status) {
  bool names = false;
  for (const Rank member : told[rank]) {
    if (told[member] == told[rank]) continue;
    names = names || status.message().find("rank " + std::to_string(member)) != std::string::npos;
  }
  EXPECT_TRUE(names) << status.message();
}

void ExpectOnlyAgreedPass(const std::vector<Members>& told, const EpochWire& wire, uint64_t seed) {
  SCOPED_TRACE(testing::Message() << wire.name << ", seed " << seed << ", "
                                  << testing::PrintToString(told));
  WorldCluster cluster(std::make_unique<SimWorld>(3, wire.wire, seed));
  Epochs epochs(cluster);
  Random random(seed);
  const Members all{0, 1, 2};
  RunEpochs(epochs, all, 1, 1);
  for (const Rank rank : all) {
    epochs.come(rank, 2, told[rank], kAttemptTime);
    cluster.settle(milliseconds(random.below(20)));
  }
  ASSERT_TRUE(epochs.run(kAttemptTime + kTellingTime));
  for (const Rank rank : all) {
    const bool agreed = IsAgreed(told, rank);
    EXPECT_EQ(epochs.result(rank).ok(), agreed) << "rank " << rank;
    EXPECT_EQ(epochs.home_uuid(rank), agreed ? 2u : 1u);
    EXPECT_TRUE(cluster.engine(rank).group_status(epochs.home(rank)).ok());
    EXPECT_EQ(cluster.engine(rank).state().groups, 1u);
    if (!agreed) ExpectNamesOneThatDiffers(told, rank, epochs.result(rank));
  }
  // A home that nobody has left serves on, and so does a new one.
  const bool stayed = std::ranges::none_of(all, [&](Rank rank) { return IsAgreed(told, rank); });
  for (const Rank rank : all) {
    if (stayed || IsAgreed(told, rank)) epochs.sum(rank);
  }
  ASSERT_TRUE(epochs.run(seconds(5)));
  for (const Rank rank : all) {
    if (!stayed && !IsAgreed(told, rank)) continue;
    EXPECT_TRUE(epochs.result(rank).ok()) << epochs.result(rank).message();
  }
  RunEpochs(epochs, all, 3, 3);
}

TEST(Epochs, AnAttemptPassesWhereAllItsMembersWereToldTheSame) {
  for (const EpochWire& wire : EpochWires()) {
    uint64_t seed = 0;
    for (const Members& first : ListsWith(0)) {
      for (const Members& second : ListsWith(1)) {
        for (const Members& third : ListsWith(2)) {
          ExpectOnlyAgreedPass({first, second, third}, wire, ++seed);
          ASSERT_FALSE(HasFailure());
        }
      }
    }
  }
}

}  // namespace
}  // namespace rocecoll
