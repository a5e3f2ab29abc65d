// SPDX-License-Identifier: Apache-2.0
// Aborts, deaths, departures and timeouts of groups over every transport: all ranks learn who.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "conformance/world_cluster.h"
#include "engine/call.h"

namespace rocecoll {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

class Failures : public Conformance {
 protected:
  // Runs until the group has failed on each of these ranks.
  static bool RunUntilFailed(WorldCluster& cluster, const std::vector<Rank>& ranks) {
    return cluster.run(
        [&] {
          for (const Rank rank : ranks) {
            if (cluster.engine(rank).group_status(cluster.group()).ok()) return false;
          }
          return true;
        },
        seconds(300));
  }
  static Status StatusAt(WorldCluster& cluster, Rank rank) {
    return cluster.engine(rank).group_status(cluster.group());
  }
};
INSTANTIATE_TEST_SUITE_P(All, Failures, testing::ValuesIn(AllWorlds()), NameOf);

bool Tells(const Status& status, const std::string& part) {
  return status.message().find(part) != std::string::npos;
}

TEST_P(Failures, AnAbortEndsTheGroupOnEveryRank) {
  WorldCluster cluster(make(3));
  RunCall(cluster, {.elements = 100});
  Call call(cluster, {.elements = 300000});
  call.submit_all();
  cluster.settle(milliseconds(1));
  cluster.engine(1).abort(cluster.group(), Status(StatusCode::kAborted, "enough of this"));
  ASSERT_TRUE(RunUntilFailed(cluster, {0, 1, 2}));
  for (const Rank rank : {0, 1, 2}) {
    EXPECT_EQ(StatusAt(cluster, rank).code(), StatusCode::kAborted);
    EXPECT_TRUE(Tells(StatusAt(cluster, rank), "enough of this"));
  }
}

TEST_P(Failures, ADeadRankIsNamedByAllOthers) {
  WorldCluster cluster(make(3));
  RunCall(cluster, {.elements = 100});
  Call call(cluster, {.elements = 3000000});
  call.submit_all();
  cluster.settle(microseconds(10));
  cluster.kill(1);
  ASSERT_TRUE(RunUntilFailed(cluster, {0, 2}));
  for (const Rank rank : {0, 2}) {
    EXPECT_EQ(StatusAt(cluster, rank).code(), StatusCode::kPeerLost);
    EXPECT_TRUE(Tells(StatusAt(cluster, rank), "lost rank 1")) << StatusAt(cluster, rank).message();
  }
}

// Long dead or not: it is named once it is needed, and by whoever needs it no longer, never.
TEST_P(Failures, AnIdleGroupFailsOnceItNeedsTheDead) {
  WorldCluster cluster(make(3));
  RunCall(cluster, {.elements = 100});
  cluster.kill(1);
  cluster.settle(milliseconds(200));
  for (const Rank rank : {0, 2}) EXPECT_TRUE(StatusAt(cluster, rank).ok());
  Call call(cluster, {.elements = 100});
  call.submit(0);
  call.submit(2);
  ASSERT_TRUE(RunUntilFailed(cluster, {0, 2}));
  for (const Rank rank : {0, 2}) {
    EXPECT_TRUE(Tells(StatusAt(cluster, rank), "lost rank 1")) << StatusAt(cluster, rank).message();
  }
}

TEST_P(Failures, ATimeoutNamesTheRankThatDidNotCall) {
  WorldCluster cluster(make(3));
  RunCall(cluster, {.elements = 100});
  for (const Rank rank : {0, 1, 2}) {
    cluster.engine(rank).set_timeout(cluster.group(), milliseconds(400));
  }
  Call call(cluster, {.elements = 1000});
  call.submit(0);
  call.submit(1);
  ASSERT_TRUE(RunUntilFailed(cluster, {0, 1}));
  for (const Rank rank : {0, 1}) {
    EXPECT_EQ(StatusAt(cluster, rank).code(), StatusCode::kTimeout);
    const Status status = StatusAt(cluster, rank);
    // In real time it may be too busy to answer in time.
    EXPECT_TRUE(Tells(status, "not called by rank 2") ||
                (!GetParam().seeded && Tells(status, "no answer from rank 2")))
        << status.message();
  }
}

TEST_P(Failures, DifferentCallsNameBoth) {
  WorldCluster cluster(make(2));
  Call reduce(cluster, {.elements = 5000});
  Call gather(cluster, {.collective = Collective::kAllgather, .elements = 5000});
  reduce.submit(0);
  gather.submit(1);
  ASSERT_TRUE(RunUntilFailed(cluster, {0, 1}));
  for (const Rank rank : {0, 1}) {
    EXPECT_EQ(StatusAt(cluster, rank).code(), StatusCode::kMismatch);
    EXPECT_TRUE(Tells(StatusAt(cluster, rank), "all_reduce"));
    EXPECT_TRUE(Tells(StatusAt(cluster, rank), "all_gather"));
  }
}

// The failed group's links close; another group over the same transports goes on.
TEST_P(Failures, OtherGroupsGoOn) {
  WorldCluster cluster(make(3));
  const GroupId other = cluster.add_group("other", 7);
  RunCall(cluster, {.elements = 100});
  Call doomed(cluster, {.elements = 300000});
  Call kept(cluster, {.elements = 300000}, other);
  doomed.submit_all();
  kept.submit_all();
  cluster.engine(0).abort(cluster.group(), Status(StatusCode::kAborted, "enough of this"));
  ASSERT_TRUE(kept.run());
  kept.check();
  EXPECT_TRUE(RunUntilFailed(cluster, {0, 1, 2}));
}

// Before anybody has a link to it.
TEST_P(Failures, ARankThatLeftBeforeFirstContactIsReported) {
  WorldCluster cluster(make(3));
  cluster.engine(1).remove_group(cluster.group());
  Call call(cluster, {.elements = 100});
  call.submit(0);
  call.submit(2);
  ASSERT_TRUE(RunUntilFailed(cluster, {0, 2}));
  for (const Rank rank : {0, 2}) {
    EXPECT_EQ(StatusAt(cluster, rank).code(), StatusCode::kPeerLeft);
    EXPECT_TRUE(Tells(StatusAt(cluster, rank), "rank 1")) << StatusAt(cluster, rank).message();
  }
}

// Whoever leaves has delivered what the others need from it.
TEST_P(Failures, ARankMayLeaveOnceItIsDone) {
  WorldCluster cluster(make(2));
  Call call(cluster, {.collective = Collective::kBroadcast, .elements = 30000});
  call.submit_all();
  ASSERT_TRUE(cluster.run([&] { return cluster.is_done(call.operations()[0]); }));
  cluster.engine(0).remove_group(cluster.group());
  ASSERT_TRUE(call.run());
  call.check();
}

}  // namespace
}  // namespace rocecoll
