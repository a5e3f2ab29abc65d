// SPDX-License-Identifier: Apache-2.0
// Systems that look for the hardware address of a peer for as long as a test wants: the calls of
// libibverbs in which a kernel does so pass through this program.
#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "verbs/real_call.h"
#include "verbs/ud_world.h"

namespace rocecoll {
namespace {

// Stands for the kernel looking for a hardware address: nobody answers until a test opens the gate.
class WayGate {
 public:
  void shut() {
    const std::lock_guard lock(mutex_);
    open_ = false;
    entered_ = 0;
  }
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  // Runs on the thread that makes the call. It gives up after a time, so that the test ends.
  void pass() {
    std::unique_lock lock(mutex_);
    ++entered_;
    changed_.notify_all();
    if (!changed_.wait_for(lock, kPatience, [this] { return open_; })) gave_up_ = true;
  }
  // Returns true once a call waits at the gate.
  bool await_caller() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, [this] { return entered_ > 0; });
  }
  bool gave_up() {
    const std::lock_guard lock(mutex_);
    return std::exchange(gave_up_, false);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = true;
  bool gave_up_ = false;
  int entered_ = 0;
};

WayGate& Gate() {
  static WayGate gate;
  return gate;
}

}  // namespace
}  // namespace rocecoll

int ibv_modify_qp(ibv_qp* queue_pair, ibv_qp_attr* attributes, int mask) {
  if ((mask & IBV_QP_AV) != 0) rocecoll::Gate().pass();
  return rocecoll::Real(&ibv_modify_qp, "ibv_modify_qp")(queue_pair, attributes, mask);
}

ibv_ah* ibv_create_ah(ibv_pd* domain, ibv_ah_attr* way) {
  rocecoll::Gate().pass();
  return rocecoll::Real(&ibv_create_ah, "ibv_create_ah")(domain, way);
}

namespace rocecoll {
namespace {

class SlowWays : public testing::Test {
 protected:
  void SetUp() override {
    const std::string reason = NoDevices(1);
    if (!reason.empty()) GTEST_SKIP() << reason;
    a_ = std::make_unique<RdmaEnd>(UsableDevices().front(), RdmaOptions());
    b_ = std::make_unique<RdmaEnd>(UsableDevices().back(), RdmaOptions());
    b_->queue_pair = b_->make();
    Gate().shut();
  }
  void TearDown() override {
    Gate().open();
    EXPECT_FALSE(Gate().gave_up()) << "who had to open the gate stood before it";
  }
  Address peer() const { return b_->queue_pair->address(); }
  // Returns the next completion, for which the test sleeps as an engine does.
  WorkCompletion next() {
    WorkCompletion one;
    while (a_->device->poll({&one, 1}) == 0) {
      if (a_->device->arm() && !WaitReadable(a_->device->wait_handle(), 20'000)) {
        ADD_FAILURE() << "nothing wakes who sleeps";
        break;
      }
    }
    return one;
  }

  std::unique_ptr<RdmaEnd> a_;
  std::unique_ptr<RdmaEnd> b_;
};

TEST_F(SlowWays, WhoPollsDoesNotWaitForThem) {
  a_->queue_pair = a_->make();
  ASSERT_TRUE(a_->queue_pair->connect(peer()).ok());
  ASSERT_TRUE(Gate().await_caller());
  EXPECT_TRUE(a_->quiet());
  EXPECT_TRUE(a_->device->health().ok());
  EXPECT_TRUE(a_->device->create_queue_pair().ok());
  Gate().open();
  const WorkCompletion connect = next();
  EXPECT_EQ(connect.kind, WorkCompletion::Kind::kConnect);
  EXPECT_EQ(connect.status, CompletionStatus::kSuccess) << connect.text;
  EXPECT_EQ(connect.queue_pair, a_->queue_pair->number());
  EXPECT_TRUE(a_->quiet());
  ASSERT_TRUE(b_->connect(*a_).ok());
  const SendRequest write = a_->write(*b_, 0, 8, 1);
  ASSERT_EQ(a_->queue_pair->post({&write, 1}), 1u);
  ASSERT_TRUE(a_->await(1));
  EXPECT_EQ(a_->completions[0].status, CompletionStatus::kSuccess) << a_->completions[0].text;
}

TEST_F(SlowWays, QueuePairsMayFailAndEndMeanwhile) {
  std::vector<std::unique_ptr<RdmaQueuePair>> queue_pairs;
  for (int i = 0; i < 5; ++i) {
    queue_pairs.push_back(a_->make());
    ASSERT_TRUE(queue_pairs.back()->connect(peer()).ok());
  }
  ASSERT_TRUE(Gate().await_caller());
  queue_pairs[0]->fail();  // its call is being made
  queue_pairs[0].reset();
  queue_pairs[1]->fail();  // its call is not made
  queue_pairs[2].reset();
  const SendRequest send = a_->request(SendRequest::Kind::kSend, 0, 8, 7);
  ASSERT_EQ(queue_pairs[1]->post({&send, 1}), 1u);
  const WorkCompletion flushed = next();
  EXPECT_EQ(flushed.kind, WorkCompletion::Kind::kSend);
  EXPECT_EQ(flushed.status, CompletionStatus::kFlushed) << flushed.text;
  Gate().open();
  for (const int i : {3, 4}) {
    const WorkCompletion connect = next();
    EXPECT_EQ(connect.kind, WorkCompletion::Kind::kConnect);
    EXPECT_EQ(connect.status, CompletionStatus::kSuccess) << connect.text;
    EXPECT_TRUE(connect.queue_pair == queue_pairs[3]->number() ||
                connect.queue_pair == queue_pairs[4]->number())
        << i;
  }
  EXPECT_TRUE(a_->device->health().ok()) << a_->device->health().message();  // takes events
  EXPECT_TRUE(a_->quiet());
}

TEST_F(SlowWays, DatagramsDoNotWaitForThemEither) {
  UdEnd from(UsableDevices().front(), RdmaOptions());
  UdEnd to(UsableDevices().back(), RdmaOptions());
  const Result<PeerHandle> peer = from.port->add_peer(to.port->address());
  ASSERT_TRUE(peer.ok()) << peer.status().message();
  ASSERT_TRUE(Gate().await_caller());
  EXPECT_TRUE(from.port->seeks_way(peer.value()));
  from.send(peer.value(), {Pattern(100, 1)});  // lost
  EXPECT_EQ(from.take(), 0u);
  Gate().open();
  from.await_way(peer.value());
  from.send(peer.value(), {Pattern(100, 2)});
  ASSERT_TRUE(to.await(1));
  EXPECT_EQ(to.packets[0].bytes, Pattern(100, 2));
  // While another way is looked for, the old one is used.
  Gate().shut();
  from.port->renew_way(peer.value());
  from.port->renew_way(peer.value());
  ASSERT_TRUE(Gate().await_caller());
  from.send(peer.value(), {Pattern(100, 3)});
  ASSERT_TRUE(to.await(2));
  Gate().open();
  from.await_way(peer.value());
  for (uint32_t i = 0; i < 100; ++i) {
    if (i % 10 == 0) from.port->renew_way(peer.value());
    from.send(peer.value(), {Pattern(100, i)});
    from.take();
    ASSERT_TRUE(to.await(3 + i));
  }
  EXPECT_TRUE(from.port->health().ok()) << from.port->health().message();
}

TEST_F(SlowWays, ADeviceEndsWhileItLooksForOne) {
  a_->queue_pair = a_->make();
  auto other = a_->make();
  ASSERT_TRUE(a_->queue_pair->connect(peer()).ok());
  ASSERT_TRUE(other->connect(peer()).ok());
  ASSERT_TRUE(Gate().await_caller());
  other.reset();
  std::thread opener([] { Gate().open(); });
  a_.reset();
  opener.join();
}

}  // namespace
}  // namespace rocecoll
