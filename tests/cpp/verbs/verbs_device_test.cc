// SPDX-License-Identifier: Apache-2.0
// Connected queue pairs of real devices in normal operation.
#include "transport/verbs/verbs_device.h"

#include <gtest/gtest.h>

#include "verbs/verbs_world.h"

namespace rocecoll {
namespace {

using Kind = WorkCompletion::Kind;

class VerbsDeviceTest : public testing::TestWithParam<Devices> {
 protected:
  void SetUp() override {
    const std::string reason = NoDevices(GetParam() == Devices::kOneDevice ? 1 : 2);
    if (!reason.empty()) GTEST_SKIP() << reason;
  }

  // Makes two ends and connects them.
  void connect(RdmaOptions a_options = {}, RdmaOptions b_options = {}) {
    const std::vector<std::string> names = UsableDevices();
    a_ = std::make_unique<RdmaEnd>(names[0], a_options);
    b_ = std::make_unique<RdmaEnd>(names[GetParam() == Devices::kOneDevice ? 0 : 1], b_options);
    a_->queue_pair = a_->make();
    b_->queue_pair = b_->make();
    Status status = a_->connect(*b_);
    ASSERT_TRUE(status.ok()) << status.message();
    status = b_->connect(*a_);
    ASSERT_TRUE(status.ok()) << status.message();
  }

  std::unique_ptr<RdmaEnd> a_;
  std::unique_ptr<RdmaEnd> b_;
};

INSTANTIATE_TEST_SUITE_P(All, VerbsDeviceTest,
                         testing::Values(Devices::kOneDevice, Devices::kTwoDevices),
                         [](const auto& param) { return Name(param.param); });

TEST_P(VerbsDeviceTest, SendsEverySizeIntoTheSharedReceiveQueue) {
  connect();
  const size_t mtu = a_->device->limits().mtu_bytes;
  const std::vector<size_t> sizes{0, 1, 8, mtu - 1, mtu, mtu + 1, 70000};
  b_->post_receives(sizes.size(), 80000);
  a_->fill(80000, 1);
  for (size_t i = 0; i < sizes.size(); ++i) {
    const SendRequest send = a_->request(SendRequest::Kind::kSend, 0, sizes[i], 100 + i);
    ASSERT_EQ(a_->queue_pair->post({&send, 1}), 1u);
  }
  ASSERT_TRUE(a_->await(sizes.size()) && b_->await(sizes.size()));
  for (size_t i = 0; i < sizes.size(); ++i) {
    const WorkCompletion& sent = a_->completions[i];
    EXPECT_EQ(sent.status, CompletionStatus::kSuccess) << sent.text;
    EXPECT_EQ(sent.kind, Kind::kSend);
    EXPECT_EQ(sent.id, 100 + i);
    EXPECT_EQ(sent.queue_pair, a_->queue_pair->number());
    const WorkCompletion& received = b_->completions[i];
    EXPECT_EQ(received.status, CompletionStatus::kSuccess) << received.text;
    EXPECT_EQ(received.kind, Kind::kReceive);
    EXPECT_EQ(received.id, i * 80000);
    EXPECT_EQ(received.bytes, sizes[i]);
    EXPECT_EQ(received.queue_pair, b_->queue_pair->number());
    EXPECT_TRUE(b_->holds(received.id, Pattern(sizes[i], 1)));
  }
}

TEST_P(VerbsDeviceTest, WritesAndTellsByTheImmediate) {
  connect();
  // Soft-RoCE counts every loss in a message as a retry until a part of it is acknowledged, so with
  // losses a long message fails for good.
  const size_t bytes = WireFaults().empty() ? a_->memory.size() - 4096 : 40'000;
  a_->fill(bytes, 2);
  ASSERT_EQ(b_->device->post_receives(std::vector<ReceiveRequest>(2)), 2u);
  std::vector<SendRequest> list{a_->write(*b_, 0, bytes - 1, 1), a_->write(*b_, bytes - 1, 1, 2),
                                a_->write(*b_, 0, 0, 3)};
  list[0].signaled = false;
  list[1].kind = list[2].kind = SendRequest::Kind::kWriteWithImmediate;
  list[1].immediate = 0x89abcdef;
  list[2].immediate = 0;
  ASSERT_EQ(a_->queue_pair->post(list), 3u);
  ASSERT_TRUE(a_->await(2) && b_->await(2));
  EXPECT_EQ(a_->completions[0].id, 2u);
  EXPECT_EQ(a_->completions[1].id, 3u);
  EXPECT_EQ(b_->completions[0].kind, Kind::kReceiveImmediate);
  EXPECT_EQ(b_->completions[0].immediate, 0x89abcdefu);
  EXPECT_EQ(b_->completions[1].immediate, 0u);
  EXPECT_TRUE(b_->holds(0, Pattern(bytes, 2)));
}

TEST_P(VerbsDeviceTest, AnInlinePayloadIsCopiedWhilePosting) {
  connect();
  const size_t bytes = a_->device->limits().max_inline_bytes;
  if (bytes == 0) GTEST_SKIP() << a_->device->description() << " has no inline sends";
  b_->post_receives(1, 4096);
  std::vector<std::byte> unregistered = Pattern(bytes, 3);
  SendRequest send;
  send.inlined = true;
  send.payload = unregistered;
  ASSERT_EQ(a_->queue_pair->post({&send, 1}), 1u);
  std::fill(unregistered.begin(), unregistered.end(), std::byte{0});
  ASSERT_TRUE(b_->await(1));
  EXPECT_TRUE(b_->holds(0, Pattern(bytes, 3)));
}

TEST_P(VerbsDeviceTest, AcceptsThePrefixThatItHasRoomFor) {
  connect();
  a_->fill(1, 4);
  const size_t room = a_->device->limits().max_send_requests;
  std::vector<SendRequest> list;
  for (size_t i = 0; i < 10 * room; ++i) list.push_back(a_->write(*b_, 0, 1, i));
  size_t posted = 0;
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (posted < list.size() && std::chrono::steady_clock::now() < deadline) {
    posted += a_->queue_pair->post(std::span(list).subspan(posted));
    ASSERT_GE(posted, std::min(room, list.size()));
    ASSERT_TRUE(a_->await(posted));
  }
  for (size_t i = 0; i < list.size(); ++i) {
    ASSERT_EQ(a_->completions[i].status, CompletionStatus::kSuccess) << a_->completions[i].text;
    ASSERT_EQ(a_->completions[i].id, i);
  }
  EXPECT_TRUE(a_->device->health().ok()) << a_->device->health().message();
}

TEST_P(VerbsDeviceTest, AcceptsAsManyReceivesAsItSays) {
  connect();
  const size_t room = b_->device->limits().max_receive_requests;
  EXPECT_EQ(b_->device->post_receives(std::vector<ReceiveRequest>(room)), room);
  EXPECT_TRUE(b_->device->health().ok()) << b_->device->health().message();
}

TEST_P(VerbsDeviceTest, TheSmallerMtuOfBothEndsIsUsed) {
  connect({.max_mtu_bytes = 4096}, {.max_mtu_bytes = 512});
  EXPECT_EQ(b_->device->limits().mtu_bytes, 512u);
  for (RdmaEnd* end : {a_.get(), b_.get()}) end->fill(10000, 5);
  const SendRequest there = a_->write(*b_, 0, 10000, 1);
  ASSERT_EQ(a_->queue_pair->post({&there, 1}), 1u);
  ASSERT_TRUE(a_->await(1));
  EXPECT_EQ(a_->completions[0].status, CompletionStatus::kSuccess) << a_->completions[0].text;
  const SendRequest back = b_->write(*a_, 0, 10000, 1);
  ASSERT_EQ(b_->queue_pair->post({&back, 1}), 1u);
  ASSERT_TRUE(b_->await(1));
  EXPECT_EQ(b_->completions[0].status, CompletionStatus::kSuccess) << b_->completions[0].text;
}

TEST_P(VerbsDeviceTest, TheWaitHandleIsQuietUntilSomethingComes) {
  connect();
  EXPECT_TRUE(b_->quiet());
  b_->post_receives(2, 4096);
  EXPECT_TRUE(b_->quiet());
  for (int round = 0; round < 2; ++round) {
    const SendRequest send = a_->request(SendRequest::Kind::kSend, 0, 8, 1);
    ASSERT_EQ(a_->queue_pair->post({&send, 1}), 1u);
    EXPECT_TRUE(WaitReadable(b_->device->wait_handle(), 20000));
    EXPECT_FALSE(b_->device->arm());  // call poll() first
    WorkCompletion one;
    EXPECT_EQ(b_->device->poll({&one, 1}), 1u);
    EXPECT_TRUE(b_->quiet());
  }
}

TEST_P(VerbsDeviceTest, AThousandQueuePairsAreMadeUsedAndDestroyed) {
  connect();
  b_->post_receives(64, 64);
  for (int cycle = 0; cycle < 1000; ++cycle) {
    a_->queue_pair = a_->make();
    b_->queue_pair = b_->make();
    ASSERT_TRUE(a_->connect(*b_).ok());
    ASSERT_TRUE(b_->connect(*a_).ok());
    a_->completions.clear();
    b_->completions.clear();
    const SendRequest send = a_->request(SendRequest::Kind::kSend, 0, 64, 1);
    ASSERT_EQ(a_->queue_pair->post({&send, 1}), 1u);
    ASSERT_TRUE(a_->await(1) && b_->await(1)) << cycle;
    ASSERT_EQ(a_->completions[0].status, CompletionStatus::kSuccess) << a_->completions[0].text;
    b_->post_receives(1, 64);
  }
  EXPECT_TRUE(a_->device->health().ok() && b_->device->health().ok());
}

TEST_P(VerbsDeviceTest, DescribesItself) {
  connect();
  const std::string name = UsableDevices()[0];
  EXPECT_EQ(a_->device->description().find(name + " port 1, GID "), 0u);
  EXPECT_NE(a_->device->description().find("RoCE v2)"), std::string::npos);
  // The rxe of Linux 6.1 takes this much; newer ones take 1 GiB and more.
  EXPECT_GE(a_->device->limits().max_message_bytes, size_t{8} << 20);
  EXPECT_TRUE(a_->device->health().ok());
}

}  // namespace
}  // namespace rocecoll
