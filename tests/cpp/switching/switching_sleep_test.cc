// SPDX-License-Identifier: Apache-2.0
// When a process looks at the control path and at its device's health: after a sleep, if it was not
// the device that woke it, and now and then, but not while there is something to send or to
// receive.
#include <gtest/gtest.h>

#include <chrono>
#include <tuple>

#include "switching/memory_world.h"

namespace rocecoll {
namespace {

class SwitchingSleep : public testing::Test {
 protected:
  void SetUp() override {
    std::tie(here_, there_) = world_.connect(0, 1);
    ASSERT_TRUE(world_.run([&] { return carried(Between(0, 1)) && carried(Between(1, 0)); }));
    poll();
    world_[0].transport->arm();
    looks_ = world_.device(0).looks;
  }
  bool carried(const LinkId& link) { return world_.carries(link); }
  size_t poll() { return world_[0].poll(world_.now()); }
  int looks() { return world_.device(0).looks - looks_; }

  MemoryWorld world_{2, 1, {}};
  Link* here_ = nullptr;
  Link* there_ = nullptr;
  int looks_ = 0;
};

TEST_F(SwitchingSleep, ThatTheDeviceHasEndedIsFollowedByNoOtherLook) {
  ASSERT_TRUE(there_->send_frame(Text("frame")));
  const auto arrived = [this] { return !world_.device(0).arm(); };
  ASSERT_TRUE(world_.run(arrived, std::chrono::milliseconds(1), {0}));
  EXPECT_EQ(poll(), 1u);
  EXPECT_EQ(poll(), 0u);
  EXPECT_EQ(looks(), 0);
}

TEST_F(SwitchingSleep, ThatSomethingElseHasEndedIsFollowedByOneLook) {
  EXPECT_EQ(poll(), 0u);
  EXPECT_EQ(looks(), 1);
  EXPECT_EQ(poll(), 0u);
  EXPECT_EQ(looks(), 1);
}

class SwitchingLooks : public SwitchingSleep {
 protected:
  void SetUp() override {
    SwitchingSleep::SetUp();
    poll();  // what a sleep asked for
    looks_ = world_.device(0).looks;
  }
  // So late that looks are due.
  size_t poll_late() {
    return world_[0].poll(world_.now() + (late_ += std::chrono::milliseconds(10)));
  }

 private:
  Duration late_{0};
};

TEST_F(SwitchingLooks, ThatAreDueWaitUntilTheDeviceBringsNothing) {
  ASSERT_TRUE(there_->send_frame(Text("frame")));
  const auto arrived = [this] { return !world_.device(0).arm(); };
  ASSERT_TRUE(world_.run(arrived, std::chrono::milliseconds(1), {0}));
  EXPECT_EQ(poll_late(), 1u);
  EXPECT_EQ(looks(), 0);
  EXPECT_EQ(poll_late(), 0u);
  EXPECT_EQ(looks(), 1);
}

TEST_F(SwitchingLooks, ThatAreDueWaitUntilNothingIsSent) {
  ASSERT_TRUE(here_->send_frame(Text("frame")));
  poll_late();
  EXPECT_EQ(looks(), 0);
  poll_late();
  EXPECT_EQ(looks(), 1);
}

TEST_F(SwitchingLooks, ThatAreDueDoNotWaitForEver) {
  for (int frame = 0; frame < 20; ++frame) {
    ASSERT_TRUE(here_->send_frame(Text("frame")));
    poll_late();
  }
  EXPECT_EQ(looks(), 1);
}

}  // namespace
}  // namespace rocecoll
