// SPDX-License-Identifier: Apache-2.0
// A process may end as soon as its last operation is complete: what it sent has left by then, and
// whoever needs nothing more of it goes on.
#include <gtest/gtest.h>

#include <string>

#include "engine/call.h"
#include "engine/one_receive.h"

namespace rocecoll {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

OperationSpec OneSend(int32_t& value, Rank to) {
  OperationSpec spec = OneReceive(value, to);
  spec.collective = Collective::kSend;
  spec.input = std::exchange(spec.output, {});
  return spec;
}

bool Tells(const OperationPtr& operation, const std::string& part) {
  return operation->status().message().find(part) != std::string::npos;
}

TEST(Leaving, ASendIsCompleteOnceItHasLeft) {
  Cluster cluster(ForRanks(2));
  int32_t value = 5, received = 0;
  const OperationPtr send = cluster.submit(0, OneSend(value, 1));
  cluster.engine(0).step(cluster.now());
  EXPECT_TRUE(cluster.engine(0).take_completed().empty()) << "nobody has answered yet";
  ASSERT_TRUE(cluster.run_until_done({send}, seconds(1)));
  EXPECT_TRUE(send->status().ok());
  cluster.settle(milliseconds(1));
  cluster.fabric().kill(0);
  const OperationPtr recv = cluster.submit(1, OneReceive(received, 0));
  ASSERT_TRUE(cluster.run_until_done({recv}, seconds(1)));
  EXPECT_TRUE(recv->status().ok()) << recv->status().message();
  EXPECT_EQ(received, 5);
}

TEST(Leaving, WhatCannotLeaveFailsWithItsRank) {
  Cluster cluster(ForRanks(2));
  cluster.fabric().kill(1);
  int32_t value = 5;
  const OperationPtr send = cluster.submit(0, OneSend(value, 1));
  ASSERT_TRUE(cluster.run_until_done({send}, seconds(30)));
  EXPECT_TRUE(Tells(send, "send #1 (to rank 1") && Tells(send, "lost rank 1"))
      << send->status().message();
}

TEST(Leaving, WhatDoesNotLeaveTimesOut) {
  Cluster cluster(ForRanks(2, seconds(1)));
  const GroupId lone = cluster.add_member("lone", 9, 0, {});
  int32_t value = 5;
  const OperationPtr send = cluster.submit(0, OneSend(value, 1), lone);
  ASSERT_TRUE(cluster.run_until_done({send}, seconds(2)));
  EXPECT_EQ(send->status().code(), StatusCode::kTimeout);
  EXPECT_TRUE(Tells(send, "timed out after 1 s, waiting for rank 1 (sim:1)") &&
              Tells(send, "what this rank sent has yet to be taken"))
      << send->status().message();
}

TEST(Leaving, WhoLeavesTheGroupStillDelivers) {
  Cluster cluster(ForRanks(2));
  int32_t value = 5, received = 0;
  const OperationPtr send = cluster.submit(0, OneSend(value, 1));
  cluster.engine(0).step(cluster.now());
  cluster.engine(0).remove_group(cluster.group());
  const OperationPtr recv = cluster.submit(1, OneReceive(received, 0));
  ASSERT_TRUE(cluster.run_until_done({send, recv}, seconds(1)));
  EXPECT_TRUE(send->status().ok()) << send->status().message();
  EXPECT_EQ(received, 5);
}

// The others call what it has long completed.
TEST(Leaving, WhatADeadRankHasSentIsEnough) {
  Cluster cluster(ForRanks(3));
  Call call(cluster, {.collective = Collective::kBroadcast, .elements = 100, .root = 1});
  call.submit(1);
  ASSERT_TRUE(cluster.run_until_done({call.operations()[0]}, seconds(1)));
  cluster.settle(milliseconds(1));
  cluster.fabric().kill(1);
  cluster.settle(seconds(1));
  for (const Rank rank : {0, 2}) {
    EXPECT_TRUE(cluster.engine(rank).group_status(cluster.group()).ok());
    call.submit(rank);
  }
  ASSERT_TRUE(call.run());
  call.check();
}

// Of ranks that wait for each other first, none has asked the dead one for anything yet.
TEST(Leaving, ADeadRankThatALaterStepNeedsIsNamedAtOnce) {
  Cluster cluster(ForRanks(4));
  const CallSpec spec{.elements = 10, .algorithm = "recursive_doubling"};
  RunCall(cluster, spec);
  Call call(cluster, spec);
  call.submit(0);
  cluster.settle(milliseconds(1));
  cluster.fabric().kill(2);
  ASSERT_TRUE(cluster.run_until_done({call.operations()[0]}, seconds(1)));
  EXPECT_TRUE(Tells(call.operations()[0], "all_reduce #2") &&
              Tells(call.operations()[0], "lost rank 2 (sim:2)"))
      << call.operations()[0]->status().message();
}

// Also one that has to wait for others before it runs.
TEST(Leaving, ADeadRankThatAQueuedOperationNeedsIsNamedAtOnce) {
  ClusterOptions options = ForRanks(4);
  options.engine.max_operations_in_flight = 1;
  Cluster cluster(options);
  const CallSpec of_all{.elements = 10, .algorithm = "recursive_doubling"};
  RunCall(cluster, of_all);
  Call first(cluster, {.collective = Collective::kBroadcast, .elements = 10, .root = 1});
  Call second(cluster, of_all);
  first.submit(0);
  second.submit(0);
  cluster.settle(milliseconds(1));
  cluster.fabric().kill(2);
  ASSERT_TRUE(cluster.run_until_done(second.operations(), seconds(1)));
  EXPECT_TRUE(Tells(second.operations()[0], "lost rank 2")) << "it waits for rank 1";
}

TEST(Leaving, OthersGoOnWithoutADeadRank) {
  Cluster cluster(ForRanks(3));
  RunCall(cluster, {.elements = 100});
  cluster.fabric().kill(1);
  cluster.settle(seconds(1));
  int32_t value = 5, received = 0;
  const OperationPtr send = cluster.submit(0, OneSend(value, 2));
  const OperationPtr recv = cluster.submit(2, OneReceive(received, 0));
  ASSERT_TRUE(cluster.run_until_done({send, recv}, seconds(1)));
  EXPECT_EQ(received, 5);
  EXPECT_TRUE(cluster.engine(0).group_status(cluster.group()).ok());
  const OperationPtr needs = cluster.submit(0, OneReceive(received, 1));
  ASSERT_TRUE(cluster.run_until_done({needs}, milliseconds(1)));
  EXPECT_TRUE(Tells(needs, "recv #2 (from rank 1, tag 0, int32, 1 element): lost rank 1"))
      << needs->status().message();
}

}  // namespace
}  // namespace rocecoll
