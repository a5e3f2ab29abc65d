// SPDX-License-Identifier: Apache-2.0
// Timeouts, deaths, mismatches and aborts: every rank learns, and the message names who and what.
#include "collectives/selector.h"
#include "engine/call.h"
#include "engine/one_receive.h"

namespace rocecoll {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

CallSpec AllReduce(uint64_t elements, std::string_view algorithm = {}) {
  return {.elements = elements, .algorithm = algorithm};
}

void ExpectContains(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << "no \"" << part << "\" in: " << text;
}

bool RunUntilAllFailed(Cluster& cluster, const std::vector<Rank>& ranks) {
  return cluster.run([&] {
    for (const Rank rank : ranks) {
      if (cluster.engine(rank).group_status(cluster.group()).ok()) return false;
    }
    return true;
  });
}

const std::string& MessageAt(Cluster& cluster, Rank rank) {
  static std::string message;
  message = cluster.engine(rank).group_status(cluster.group()).message();
  return message;
}

TEST(Failure, TimeoutNamesGroupOperationPeersAndProgress) {
  Cluster cluster(ForRanks(3, seconds(2)));
  RunCall(cluster, AllReduce(4));
  Call call(cluster, AllReduce(1024));
  call.submit(0);
  call.submit(1);
  ASSERT_TRUE(call.run());
  EXPECT_EQ(call.operations()[0]->status().code(), StatusCode::kTimeout);
  const std::string message = MessageAt(cluster, 0) + MessageAt(cluster, 1);
  ExpectContains(message, "rocecoll: group \"default\": all_reduce #2 (SUM, int32, 1024 elements)");
  ExpectContains(message, "timed out after 2 s");
  ExpectContains(message, "rank 2 (sim:2)");
  ExpectContains(message, "0 of 1 parts done");
}

// Most ranks wait for others that wait themselves; all of them name the one that is missing.
TEST(Failure, TimeoutNamesTheRankThatDidNotCall) {
  for (const uint32_t ranks : {2u, 4u, 5u, 8u}) {
    for (const Rank missing : {Rank{0}, ranks - 1}) {
      Cluster cluster(ForRanks(ranks, seconds(2)));
      RunCall(cluster, AllReduce(4));
      Call call(cluster, AllReduce(100000, "ring"));
      for (Rank rank = 0; rank < ranks; ++rank) {
        if (rank != missing) call.submit(rank);
      }
      ASSERT_TRUE(call.run());
      const std::string named = "not called by rank " + std::to_string(missing) +
                                " (sim:" + std::to_string(missing) + ")";
      for (const OperationPtr& operation : call.operations()) {
        EXPECT_EQ(operation->status().code(), StatusCode::kTimeout);
        ExpectContains(operation->status().message(), named + "; 0 of");
      }
    }
  }
}

// A rank that does not answer is named, too, and asking ends.
TEST(Failure, TimeoutNamesRanksThatDoNotAnswer) {
  ClusterOptions options = ForRanks(4, seconds(2));
  options.fabric.detection_delay = seconds(10);
  Cluster cluster(options);
  cluster.fabric().kill(3);
  Call call(cluster, AllReduce(4));
  call.submit(0);
  call.submit(1);
  ASSERT_TRUE(cluster.run_until_done(call.operations(), seconds(3)));
  ExpectContains(MessageAt(cluster, 0), "; not called by rank 2 (sim:2)");
  ExpectContains(MessageAt(cluster, 0), "; no answer from rank 3 (sim:3)");
}

// An older receive that nobody answers is not blamed for a collective's timeout.
TEST(Failure, TimeoutNamesTheOperationThatIsLate) {
  Cluster cluster(ForRanks(2));
  int32_t value = 0;
  cluster.submit(0, OneReceive(value, 1));
  OperationSpec barrier;
  barrier.timeout = seconds(1);
  const OperationPtr op = cluster.submit(0, barrier);
  ASSERT_TRUE(cluster.run_until_done({op}, seconds(2)));
  ExpectContains(op->status().message(), "barrier #1: timed out after 1 s");
  ExpectContains(op->status().message(), "not called by rank 1 (sim:1)");
}

// A later operation's own, shorter timeout counts, too.
TEST(Failure, TimeoutOfOneOperation) {
  Cluster cluster(ForRanks(2));
  OperationSpec spec;
  spec.collective = Collective::kBarrier;
  spec.timeout = milliseconds(5);
  const OperationPtr op = cluster.submit(0, spec);
  ASSERT_TRUE(cluster.run_until_done({op}, seconds(1)));
  EXPECT_EQ(op->status().code(), StatusCode::kTimeout);
}

// In a chain of sends most ranks are not neighbours of the dead one.
TEST(Failure, DeathReachesRanksThatAreNobodysNeighbour) {
  Cluster cluster(ForRanks(8));
  int32_t value = 0;
  const OperationPtr waiting = cluster.submit(0, OneReceive(value, 1));
  cluster.settle(milliseconds(1));
  OperationSpec other = OneReceive(value, 0);  // opens the link at the other end
  other.user_tag = 5;
  cluster.submit(1, other);
  cluster.settle(milliseconds(1));
  cluster.fabric().kill(1);
  ASSERT_TRUE(RunUntilAllFailed(cluster, {0, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(waiting->status().code(), StatusCode::kPeerLost);
  ExpectContains(waiting->status().message(), "lost rank 1 (sim:1)");
  for (const Rank rank : {2, 3, 4, 5, 6, 7}) {
    EXPECT_EQ(cluster.engine(rank).group_status(cluster.group()).code(), StatusCode::kPeerLost);
    ExpectContains(MessageAt(cluster, rank), "rank 0 (sim:0) reported: peer lost");
    ExpectContains(MessageAt(cluster, rank), "lost rank 1 (sim:1)");
    ExpectContains(MessageAt(cluster, rank),
                   "; see rank 1's own log first: it may have raised an exception or been killed;");
  }
}

TEST(Failure, DeathInALargeOperation) {
  for (const std::string_view algorithm : AlgorithmNames(Collective::kAllreduce)) {
    if (algorithm == "halving_doubling") continue;  // not for five ranks
    Cluster cluster(ForRanks(5));
    Call call(cluster, AllReduce(500000, algorithm));
    call.submit_all();
    cluster.settle(std::chrono::microseconds(100));
    cluster.fabric().kill(3);
    ASSERT_TRUE(RunUntilAllFailed(cluster, {0, 1, 2, 4})) << algorithm;
    for (const Rank rank : {0, 1, 2, 4}) {
      ExpectContains(MessageAt(cluster, rank), "rank 3 (sim:3)");
      EXPECT_EQ(cluster.engine(rank).group_status(cluster.group()).code(), StatusCode::kPeerLost);
      EXPECT_FALSE(cluster.engine(rank).has_pending());
    }
  }
}

TEST(Failure, MismatchNamesBothCallsOnEveryRank) {
  Cluster cluster(ForRanks(4));
  RunCall(cluster, AllReduce(4));
  Call one(cluster, AllReduce(100));
  Call other(cluster, {.collective = Collective::kBroadcast, .elements = 100, .root = 1});
  for (const Rank rank : {0, 1, 2}) one.submit(rank);
  other.submit(3);
  ASSERT_TRUE(RunUntilAllFailed(cluster, {0, 1, 2, 3}));
  for (const Rank rank : {0, 1, 2, 3}) {
    EXPECT_EQ(cluster.engine(rank).group_status(cluster.group()).code(), StatusCode::kMismatch);
    ExpectContains(MessageAt(cluster, rank), "all_reduce(SUM, int32, 100 elements)");
    ExpectContains(MessageAt(cluster, rank), "broadcast(root 1, int32, 100 elements)");
  }
}

TEST(Failure, MismatchOfSizes) {
  for (const auto& [ours, theirs] : {std::pair{8, 9}, {8, 500000}, {1000000, 500000}, {0, 7}}) {
    Cluster cluster(ForRanks(2));
    Call a(cluster, AllReduce(ours));
    Call b(cluster, AllReduce(theirs));
    a.submit(0);
    b.submit(1);
    ASSERT_TRUE(RunUntilAllFailed(cluster, {0, 1})) << ours << " and " << theirs;
    EXPECT_EQ(cluster.engine(0).group_status(cluster.group()).code(), StatusCode::kMismatch);
  }
}

TEST(Failure, AbortEndsEverythingInOrderAndForGood) {
  Cluster cluster(ForRanks(3));
  std::vector<std::unique_ptr<Call>> calls;
  for (int i = 0; i < 20; ++i) {
    calls.push_back(std::make_unique<Call>(cluster, AllReduce(100 + i)));
    for (const Rank rank : {0, 1}) calls.back()->submit(rank);
  }
  cluster.engine(1).abort(cluster.group(), Status(StatusCode::kAborted, "no more"));
  ASSERT_TRUE(RunUntilAllFailed(cluster, {0, 1, 2}));
  for (const Rank rank : {0, 1}) {
    const auto& completed = cluster.completed(rank);
    ASSERT_EQ(completed.size(), 20u);
    for (size_t i = 0; i < completed.size(); ++i) EXPECT_EQ(completed[i]->sequence(), i + 1);
    EXPECT_EQ(completed.front()->status().code(), StatusCode::kAborted);
    ExpectContains(completed.back()->status().message(), "no more");
  }
  ExpectContains(MessageAt(cluster, 2), "rank 1 (sim:1) reported: aborted: no more");
  Status refused;
  OperationSpec spec;
  cluster.submit(2, spec, 0, &refused);
  EXPECT_EQ(refused.message(), MessageAt(cluster, 2));
  // Other groups live.
  Call call(cluster, AllReduce(10), cluster.add_group("second", 9));
  call.submit_all();
  ASSERT_TRUE(call.run());
  call.check();
}

// A user's words are only words, whatever they look like, whether a notice or a closing link
// brings them.
TEST(Failure, AReasonThatReadsLikeAReportIsPassedOnUntouched) {
  const std::string reason = "rank 0 (sim:0) reported: timeout: lost rank 2";
  for (const bool linked : {false, true}) {
    Cluster cluster(ForRanks(3));
    if (linked) RunCall(cluster, AllReduce(100));
    cluster.engine(1).abort(cluster.group(), Status(StatusCode::kAborted, reason));
    ASSERT_TRUE(RunUntilAllFailed(cluster, {0, 1, 2}));
    EXPECT_EQ(MessageAt(cluster, 1), reason);
    for (const Rank rank : {0, 2}) {
      EXPECT_EQ(cluster.engine(rank).group_status(cluster.group()).code(), StatusCode::kAborted);
      ExpectContains(MessageAt(cluster, rank), "rank 1 (sim:1) reported: aborted: " + reason + ";");
    }
  }
}

TEST(Failure, LeavingIsAnErrorOnlyForWhoeverNeedsTheRank) {
  Cluster cluster(ForRanks(3));
  RunCall(cluster, AllReduce(100));
  cluster.engine(2).remove_group(cluster.group());
  cluster.settle(milliseconds(50));
  EXPECT_TRUE(cluster.engine(0).group_status(cluster.group()).ok());
  Call call(cluster, AllReduce(100));
  call.submit(0);
  call.submit(1);
  ASSERT_TRUE(RunUntilAllFailed(cluster, {0, 1}));
  EXPECT_EQ(cluster.engine(0).group_status(cluster.group()).code(), StatusCode::kPeerLeft);
  // Also where another rank has reported it.
  for (const Rank rank : {0, 1}) {
    ExpectContains(MessageAt(cluster, rank),
                   "rank 2 (sim:2) left the group; see rank 2's own log first: it may have raised "
                   "an exception; if it only ended early, let all ranks wait for each other");
  }
}

TEST(Failure, RefusesWrongArguments) {
  Cluster cluster(ForRanks(3));
  int32_t memory[6] = {};
  const auto refuse = [&](OperationSpec spec, const std::string& part) {
    Status status;
    cluster.submit(0, std::move(spec), 0, &status);
    EXPECT_FALSE(status.ok()) << part;
    ExpectContains(status.message(), part);
  };
  OperationSpec good;
  good.collective = Collective::kAllreduce;
  good.type = DataType::kInt32;
  good.input = {memory, Partition::Even(6, 3)};
  good.output = good.input;
  OperationSpec spec = good;
  spec.output.partition = Partition::Even(5, 3);
  refuse(spec, "input has 6 elements, output has 5");
  spec = good;
  spec.input.partition = Partition::Even(6, 2);
  refuse(spec, "input has 2 blocks, needs 3");
  spec = good;
  spec.input.data = nullptr;
  refuse(spec, "no memory");
  spec = good;
  spec.reduce_op = ReduceOp::kBand;
  spec.type = DataType::kFloat32;
  refuse(spec, "float32");
  spec = good;
  spec.algorithm = "magic";
  refuse(spec, "magic");
  spec = good;
  spec.collective = Collective::kBroadcast;
  spec.root = 3;
  refuse(spec, "rank 3 is not in the group");
  spec.collective = Collective::kSend;
  spec.root = 0;
  refuse(spec, "itself");
  RunCall(cluster, AllReduce(10));
}

}  // namespace
}  // namespace rocecoll
