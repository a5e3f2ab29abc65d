// SPDX-License-Identifier: Apache-2.0
// Connected queue pairs of real devices that fail, and what still works afterwards.
#include <gtest/gtest.h>

#include <algorithm>

#include "verbs/verbs_world.h"

namespace rocecoll {
namespace {

class VerbsFailureTest : public testing::Test {
 protected:
  void SetUp() override {
    const std::string reason = NoDevices(1);
    if (!reason.empty()) GTEST_SKIP() << reason;
    // Retries end soon: there are 2 of about 33 ms.
    options_.timeout = 13;
    options_.retry_count = 2;
    a_ = std::make_unique<RdmaEnd>(UsableDevices()[0], options_);
    // If the refusal itself may be lost, the failure would be that nobody answers, so stay on one
    // device.
    const std::vector<std::string> names = UsableDevices();
    b_ = std::make_unique<RdmaEnd>(WireFaults().empty() ? names.back() : names[0], options_);
    renew();
  }
  // Makes and connects two new queue pairs.
  void renew() {
    a_->queue_pair = a_->make();
    b_->queue_pair = b_->make();
    ASSERT_TRUE(a_->connect(*b_).ok());
    ASSERT_TRUE(b_->connect(*a_).ok());
    a_->completions.clear();
    b_->completions.clear();
  }
  void post(const SendRequest& request) { ASSERT_EQ(a_->queue_pair->post({&request, 1}), 1u); }
  // Expects that the request fails with this status, that requests posted after it are flushed, and
  // that nothing of b changes.
  void expect_failure(SendRequest request, CompletionStatus status) {
    const std::vector<std::byte> before = b_->memory;
    request.signaled = false;
    post(request);
    post(a_->write(*b_, 0, 1, 77));
    ASSERT_TRUE(a_->await(2));
    EXPECT_EQ(a_->completions[0].status, status) << a_->completions[0].text;
    EXPECT_EQ(a_->completions[0].kind, WorkCompletion::Kind::kSend);
    EXPECT_EQ(a_->completions[0].id, request.id);
    EXPECT_EQ(a_->completions[1].status, CompletionStatus::kFlushed) << a_->completions[1].text;
    EXPECT_EQ(a_->completions[1].id, 77u);
    EXPECT_EQ(b_->memory, before);
    EXPECT_TRUE(a_->device->health().ok()) << a_->device->health().message();
  }

  RdmaOptions options_;
  std::unique_ptr<RdmaEnd> a_;
  std::unique_ptr<RdmaEnd> b_;
};

TEST_F(VerbsFailureTest, AWriteWithAWrongKeyIsDenied) {
  a_->fill(100, 1);
  SendRequest write = a_->write(*b_, 0, 100, 5);
  write.remote_key ^= 0x5a00;
  expect_failure(write, CompletionStatus::kAccessDenied);
}

TEST_F(VerbsFailureTest, AWriteBeyondTheRegionIsDenied) {
  a_->fill(100, 1);
  SendRequest write = a_->write(*b_, 0, 100, 5);
  write.remote_address += b_->memory.size() - 99;
  expect_failure(write, CompletionStatus::kAccessDenied);
}

TEST_F(VerbsFailureTest, AWriteIntoMemoryThatOnlyItsOwnerMayWriteIsDenied) {
  a_->fill(100, 1);
  const MemoryRegion region = b_->device->register_memory(b_->memory, RemoteAccess::kNone).take();
  SendRequest write = a_->write(*b_, 0, 100, 5);
  write.remote_key = region.remote_key;
  expect_failure(write, CompletionStatus::kAccessDenied);
  b_->device->deregister(region);
}

TEST_F(VerbsFailureTest, AWriteIntoMemoryNoLongerRegisteredIsDenied) {
  a_->fill(100, 1);
  const MemoryRegion region = b_->device->register_memory(b_->memory, RemoteAccess::kWrite).take();
  SendRequest write = a_->write(*b_, 0, 100, 5);
  write.remote_key = region.remote_key;
  b_->device->deregister(region);
  expect_failure(write, CompletionStatus::kAccessDenied);
}

TEST_F(VerbsFailureTest, AMessageLongerThanTheReceiveBufferFailsBothEnds) {
  b_->post_receives(1, 100);
  post(a_->request(SendRequest::Kind::kSend, 0, 101, 5));
  ASSERT_TRUE(a_->await(1) && b_->await(1));
  EXPECT_EQ(a_->completions[0].status, CompletionStatus::kFailed);
  EXPECT_EQ(b_->completions[0].status, CompletionStatus::kFailed);
  EXPECT_EQ(b_->completions[0].kind, WorkCompletion::Kind::kReceive);
  EXPECT_EQ(b_->completions[0].id, 0u);
}

TEST_F(VerbsFailureTest, NobodyAnswersForAQueuePairThatIsGone) {
  b_->queue_pair.reset();
  expect_failure(a_->request(SendRequest::Kind::kSend, 0, 8, 5), CompletionStatus::kRetryExceeded);
}

TEST_F(VerbsFailureTest, NobodyAnswersForAQueuePairThatHasFailed) {
  b_->queue_pair->fail();
  a_->fill(100, 1);
  expect_failure(a_->write(*b_, 0, 100, 5), CompletionStatus::kRetryExceeded);
}

TEST_F(VerbsFailureTest, ASendWithoutAReceiveRequestEndsInTime) {
  expect_failure(a_->request(SendRequest::Kind::kSend, 0, 8, 5),
                 CompletionStatus::kReceiverNotReady);
}

TEST_F(VerbsFailureTest, FailFlushesEverythingInOrder) {
  b_->queue_pair->fail();  // it answers nothing, so all requests stay outstanding
  std::vector<SendRequest> list;
  for (uint64_t i = 0; i < 40; ++i) {
    list.push_back(a_->request(SendRequest::Kind::kSend, 0, 8, i));
    list.back().signaled = i % 2 == 0;
  }
  ASSERT_EQ(a_->queue_pair->post(list), list.size());
  a_->queue_pair->fail();
  ASSERT_TRUE(a_->await(list.size()));
  // Requests that are posted afterwards are flushed, too.
  ASSERT_EQ(a_->queue_pair->post(list), list.size());
  ASSERT_TRUE(a_->await(2 * list.size()));
  for (size_t i = 0; i < a_->completions.size(); ++i) {
    EXPECT_EQ(a_->completions[i].status, CompletionStatus::kFlushed) << a_->completions[i].text;
    EXPECT_EQ(a_->completions[i].id, i % list.size());
  }
  a_->queue_pair->fail();  // a second call does no harm
  EXPECT_TRUE(a_->device->health().ok()) << a_->device->health().message();
}

TEST_F(VerbsFailureTest, OneQueuePairsFailureLeavesTheOthersAndTheSharedReceiveQueueAlone) {
  auto a_other = a_->make();
  auto b_other = b_->make();
  ASSERT_TRUE(a_->connect(*a_other, b_other->address()).ok());
  ASSERT_TRUE(b_->connect(*b_other, a_other->address()).ok());
  b_->post_receives(4, 64);
  a_->queue_pair->fail();
  b_->queue_pair->fail();
  const std::vector<SendRequest> list(4, a_->request(SendRequest::Kind::kSend, 0, 8, 5));
  ASSERT_EQ(a_other->post(list), 4u);
  ASSERT_TRUE(a_->await(4) && b_->await(4));
  for (const WorkCompletion& completion : b_->completions) {
    EXPECT_EQ(completion.status, CompletionStatus::kSuccess) << completion.text;
    EXPECT_EQ(completion.queue_pair, b_other->number());
  }
}

// The queues of more queue pairs than the completion queue was made for are full, and all of them
// are flushed unread.
TEST_F(VerbsFailureTest, TheCompletionQueueHasRoomForTheFailureOfAll) {
  b_->queue_pair->fail();
  const size_t room = a_->device->limits().max_send_requests;
  const std::vector<SendRequest> list(room, a_->request(SendRequest::Kind::kSend, 0, 8, 5));
  std::vector<std::unique_ptr<RdmaQueuePair>> queue_pairs;
  for (int i = 0; i < 80; ++i) {
    queue_pairs.push_back(a_->make());
    ASSERT_TRUE(a_->connect(*queue_pairs.back(), b_->queue_pair->address()).ok());
  }
  for (const auto& queue_pair : queue_pairs) {
    ASSERT_EQ(queue_pair->post(list), room);
    queue_pair->fail();
  }
  ASSERT_TRUE(a_->await(room * queue_pairs.size()));
  EXPECT_TRUE(a_->device->health().ok()) << a_->device->health().message();
}

TEST_F(VerbsFailureTest, QueuePairsBeyondTheCompletionQueueAreRefusedUntilOthersAreGone) {
  constexpr size_t kMany = 5000;
  std::vector<std::unique_ptr<RdmaQueuePair>> queue_pairs;
  Status refused;
  while (refused.ok() && queue_pairs.size() < kMany) {
    auto made = a_->device->create_queue_pair();
    refused = made.status();
    if (made.ok()) queue_pairs.push_back(made.take());
  }
  if (refused.ok()) GTEST_SKIP() << "more than " << kMany << " queue pairs fit on this device";
  EXPECT_EQ(refused.code(), StatusCode::kNetwork);
  EXPECT_NE(refused.message().find("no room for another queue pair"), std::string::npos)
      << refused.message();
  queue_pairs.clear();
  EXPECT_TRUE(a_->quiet());
  EXPECT_TRUE(a_->device->create_queue_pair().ok());
}

TEST_F(VerbsFailureTest, ConnectRefusesWhatIsNoQueuePairOfItsKind) {
  auto fresh = a_->make();
  EXPECT_EQ(fresh->connect(Address()).code(), StatusCode::kInvalidArgument);
  const std::array<std::byte, 28> zeros{};
  EXPECT_EQ(fresh->connect(Address(zeros, "zeros")).code(), StatusCode::kInvalidArgument);
  QueuePairAddress other =
      ToQueuePairAddress(fresh->address(), QueuePairAddress::Kind::kConnected).take();
  other.gid = ParseGid(other.gid.is_ipv4() ? "2001:db8::1" : "192.0.2.1").value();
  EXPECT_EQ(fresh->connect(ToAddress(other)).code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(a_->connect(*fresh, b_->queue_pair->address()).ok());
}

}  // namespace
}  // namespace rocecoll
