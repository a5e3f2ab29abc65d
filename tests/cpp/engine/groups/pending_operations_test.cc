// SPDX-License-Identifier: Apache-2.0
#include "engine/groups/pending_operations.h"

#include <gtest/gtest.h>

#include "transport/sim/sim_fabric.h"
#include "transport/sim/sim_transport.h"

namespace rocecoll {
namespace {

using std::chrono::seconds;

class PendingOperationsTest : public testing::Test {
 protected:
  PendingOperations::Entry entry(Collective collective, uint64_t tag_operation, int deadline) {
    OperationSpec spec;
    spec.collective = collective;
    PendingOperations::Entry entry;
    entry.operation = std::make_shared<Operation>(spec, nullptr);
    entry.tag_operation = tag_operation;
    entry.order = ++orders_;
    entry.deadline = Instant(seconds(deadline));
    return entry;
  }
  uint64_t order_of(const PendingOperations::Running* running) {
    return running == nullptr ? 0 : running->entry.order;
  }

  SimFabric fabric_{SimFabricOptions{}};
  SimTransport& transport_ = fabric_.transport(0);
  Messenger messenger_{transport_, {1, 1}, 0, {transport_.address()}, {}};
  ScratchPool scratch_{transport_.memory(), 1 << 20};
  const ExecutionContext context_{messenger_, scratch_, transport_.memory()};
  PendingOperations pending_{context_};
  uint64_t orders_ = 0;
};

TEST_F(PendingOperationsTest, FindsByTagAndElseTheOldest) {
  EXPECT_EQ(pending_.find(7), nullptr);
  const uint32_t first = pending_.place(entry(Collective::kSend, 7, 10));
  const uint32_t second = pending_.place(entry(Collective::kRecv, 8, 10));
  EXPECT_EQ(order_of(pending_.find(8)), 2u);
  EXPECT_EQ(order_of(pending_.find(9)), 1u);
  EXPECT_EQ(pending_.take(first).order, 1u);
  EXPECT_EQ(order_of(pending_.find(7)), 2u);
  EXPECT_THROW(pending_.at(first), CheckFailure);
  EXPECT_EQ(pending_.place(entry(Collective::kSend, 7, 10)), first) << "places are used again";
  EXPECT_EQ(order_of(pending_.find(9)), 2u) << "the oldest one, whatever its place";
  EXPECT_EQ(pending_.at(second).entry.order, 2u);
}

TEST_F(PendingOperationsTest, KnowsTheEarliestDeadline) {
  EXPECT_EQ(pending_.earliest_deadline(), kNever);
  pending_.place(entry(Collective::kSend, 7, 20));
  const uint32_t early = pending_.place(entry(Collective::kSend, 8, 5));
  pending_.enqueue(entry(Collective::kBarrier, 1, 10));
  EXPECT_EQ(pending_.earliest_deadline(), Instant(seconds(5)));
  pending_.take(early);
  EXPECT_EQ(pending_.find_earliest_deadline(), Instant(seconds(10)));
  pending_.on_pause(seconds(3));
  EXPECT_EQ(pending_.earliest_deadline(), Instant(seconds(13)));
  EXPECT_EQ(pending_.find_earliest_deadline(), Instant(seconds(13)));
  EXPECT_EQ(pending_.find(7)->entry.deadline, Instant(seconds(23)));
}

TEST_F(PendingOperationsTest, TheLateOneIsTheOldestOfThoseWhoseDeadlineHasPassed) {
  pending_.place(entry(Collective::kSend, 7, 20));
  pending_.place(entry(Collective::kSend, 8, 5));
  pending_.place(entry(Collective::kSend, 9, 4));
  EXPECT_EQ(order_of(pending_.find_late(Instant(seconds(6)))), 2u);
  EXPECT_EQ(order_of(pending_.find_late(Instant(seconds(1)))), 1u) << "only a queued one is late";
}

TEST_F(PendingOperationsTest, TakesAllInTheOrderOfSubmission) {
  pending_.enqueue(entry(Collective::kBarrier, 1, 10));
  pending_.place(entry(Collective::kSend, 7, 10));
  pending_.enqueue(entry(Collective::kBarrier, 2, 10));
  std::vector<uint64_t> orders;
  for (const auto& taken : pending_.take_all()) orders.push_back(taken.order);
  EXPECT_EQ(orders, (std::vector<uint64_t>{1, 2, 3}));
  EXPECT_TRUE(pending_.queue().empty());
  EXPECT_EQ(pending_.find(7), nullptr);
  EXPECT_EQ(pending_.earliest_deadline(), kNever);
}

}  // namespace
}  // namespace rocecoll
