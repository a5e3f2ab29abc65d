// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <vector>

#include "sim/rdma_pair.h"
#include "transport/sim/sim_rdma.h"

namespace rocecoll {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

TEST_F(SimRdmaTest, ACutLinkEndsRequestsUnlessItIsMendedInTime) {
  fabric_.cut(0, 1);
  post(write(1, 0, 8));
  run(milliseconds(50));
  fabric_.mend(1, 0);
  run(milliseconds(1));
  EXPECT_EQ(Outcomes(a_.poll()), (Expected{{1, CompletionStatus::kSuccess}}));
  fabric_.cut(0, 1);
  post(write(2, 0, 8));
  post(write(3, 0, 8));
  run(milliseconds(99));
  EXPECT_TRUE(a_.poll().empty());
  run(milliseconds(2));
  EXPECT_EQ(Outcomes(a_.poll()),
            (Expected{{2, CompletionStatus::kRetryExceeded}, {3, CompletionStatus::kFlushed}}));
}

TEST_F(SimRdmaTest, ALostAcknowledgementFailsARequestThatWasExecuted) {
  b_.post_receives(1);
  post(send(1, "done"));
  run(microseconds(7));
  fabric_.cut(0, 1);
  run(milliseconds(101));
  EXPECT_EQ(Outcomes(a_.poll()), (Expected{{1, CompletionStatus::kRetryExceeded}}));
  EXPECT_EQ(b_.poll().size(), 1u);
}

TEST_F(SimRdmaTest, APortThatIsDownCutsAllLinksAndIsReported) {
  EXPECT_TRUE(b_.device->health().ok());
  fabric_.set_port(1, false);
  EXPECT_EQ(b_.device->health().code(), StatusCode::kNetwork);
  EXPECT_TRUE(a_.device->health().ok());
  post(write(1, 0, 8));
  run(milliseconds(10));
  fabric_.set_port(1, true);
  EXPECT_TRUE(b_.device->health().ok());
  run(milliseconds(1));
  EXPECT_EQ(Outcomes(a_.poll()), (Expected{{1, CompletionStatus::kSuccess}}));
  fabric_.set_port(0, false);
  post(write(2, 0, 8));
  run(milliseconds(101));
  EXPECT_EQ(Outcomes(a_.poll()), (Expected{{2, CompletionStatus::kRetryExceeded}}));
}

TEST_F(SimRdmaTest, OfAKilledEndpointNothingIsHeardAgain) {
  b_.post_receives(2);
  post(send(1, "last"));
  run(microseconds(6));
  fabric_.kill(0);
  EXPECT_TRUE(a_.poll().empty());
  EXPECT_EQ(a_.device->health().code(), StatusCode::kNetwork);
  run(milliseconds(200));
  EXPECT_TRUE(a_.poll().empty());
  EXPECT_EQ(b_.poll().size(), 1u);
  const SendRequest request = send(2, "anyone?");
  EXPECT_EQ(a_.queue_pair->post({&request, 1}), 0u);
  SendRequest probe;
  probe.kind = Kind::kWrite;
  ASSERT_EQ(b_.queue_pair->post({&probe, 1}), 1u);
  run(milliseconds(101));
  EXPECT_EQ(Outcomes(b_.poll()), (Expected{{0, CompletionStatus::kRetryExceeded}}));
}

TEST_F(SimRdmaTest, ABrokenQueuePairFailsItsOldestRequest) {
  fabric_.cut(0, 1);
  post(write(1, 0, 8));
  post(write(2, 0, 8));
  ASSERT_EQ(fabric_.queue_pairs(0).size(), 1u);
  fabric_.break_queue_pair(0, fabric_.queue_pairs(0)[0]);
  EXPECT_EQ(Outcomes(a_.poll()),
            (Expected{{1, CompletionStatus::kFailed}, {2, CompletionStatus::kFlushed}}));
}

TEST_F(SimRdmaTest, ADestroyedOrUnconnectedPeerNeverAnswers) {
  auto unconnected = b_.device->create_queue_pair().take();
  const Address address = unconnected->address();
  auto first = a_.device->create_queue_pair().take();
  ASSERT_TRUE(first->connect(address).ok());
  SendRequest request = write(1, 0, 8);
  ASSERT_EQ(first->post({&request, 1}), 1u);
  run(milliseconds(50));
  ASSERT_TRUE(unconnected->connect(first->address()).ok());  // in time, so it is served now
  run(milliseconds(1));
  EXPECT_EQ(Outcomes(a_.poll()), (Expected{{1, CompletionStatus::kSuccess}}));
  unconnected.reset();
  auto second = a_.device->create_queue_pair().take();
  ASSERT_TRUE(second->connect(address).ok());
  request = write(2, 0, 8);
  ASSERT_EQ(second->post({&request, 1}), 1u);
  run(milliseconds(101));
  EXPECT_EQ(Outcomes(a_.poll()), (Expected{{2, CompletionStatus::kRetryExceeded}}));
}

TEST_F(SimRdmaTest, APeerConnectedToAnotherQueuePairDoesNotServeUs) {
  auto stranger = a_.device->create_queue_pair().take();
  ASSERT_TRUE(stranger->connect(b_.queue_pair->address()).ok());
  const SendRequest request = write(1, 0, 8);
  ASSERT_EQ(stranger->post({&request, 1}), 1u);
  run(milliseconds(101));
  EXPECT_EQ(Outcomes(a_.poll()), (Expected{{1, CompletionStatus::kRetryExceeded}}));
}

TEST_F(SimRdmaTest, RefusesAsASystemShortOfResourcesDoes) {
  fabric_.refusals(0) = {true, true, true};
  EXPECT_EQ(a_.device->register_memory(a_.target, RemoteAccess::kNone).status().code(),
            StatusCode::kNetwork);
  EXPECT_EQ(a_.device->create_queue_pair().status().code(), StatusCode::kNetwork);
  fabric_.refusals(0).queue_pairs = false;
  auto queue_pair = a_.device->create_queue_pair().take();
  a_.poll();
  EXPECT_TRUE(queue_pair->connect(b_.queue_pair->address()).ok());
  a_.poll();
  ASSERT_EQ(a_.connects.size(), 2u);
  EXPECT_EQ(a_.connects[1].status, CompletionStatus::kFailed);
  EXPECT_NE(std::string(a_.connects[1].text).find("cannot reach"), std::string::npos);
  const std::array<std::byte, 4> foreign{};
  EXPECT_EQ(queue_pair->connect(Address(foreign, "10.0.0.1")).code(), StatusCode::kInvalidArgument);
  fabric_.refusals(0) = {};
  EXPECT_TRUE(queue_pair->connect(b_.queue_pair->address()).ok());
  a_.poll();
  EXPECT_EQ(a_.connects.back().status, CompletionStatus::kSuccess);
}

class SlowConnects : public SimRdmaTest {
 protected:
  SlowConnects() : SimRdmaTest({.connect_time = std::chrono::seconds(2)}) {}
  void SetUp() override {}
};

TEST_F(SlowConnects, ADeviceConnectsOneQueuePairAfterTheOther) {
  const Address peer = b_.queue_pair->address();
  std::vector<std::unique_ptr<RdmaQueuePair>> queue_pairs;
  for (int i = 0; i < 4; ++i) {
    queue_pairs.push_back(a_.device->create_queue_pair().take());
    ASSERT_TRUE(queue_pairs.back()->connect(peer).ok());
  }
  const auto connected = [this](Duration time) {
    run(time);
    a_.poll();
    return a_.connects.size();
  };
  EXPECT_EQ(connected(milliseconds(1999)), 0u);
  EXPECT_EQ(connected(milliseconds(1)), 1u);
  queue_pairs[1].reset();  // under way, so it takes its time
  queue_pairs[2].reset();  // not begun, so it takes none
  EXPECT_EQ(connected(milliseconds(3999)), 1u);
  EXPECT_EQ(connected(milliseconds(1)), 2u);
  EXPECT_EQ(a_.connects[1].queue_pair, queue_pairs[3]->number());
}

TEST_F(SlowConnects, AQueuePairThatHasFailedMeanwhileIsNotConnected) {
  ASSERT_TRUE(a_.queue_pair->connect(b_.queue_pair->address()).ok());
  a_.queue_pair->fail();
  run(std::chrono::seconds(3));
  a_.poll();
  EXPECT_TRUE(a_.connects.empty());
}

}  // namespace
}  // namespace rocecoll
