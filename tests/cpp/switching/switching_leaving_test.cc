// SPDX-License-Identifier: Apache-2.0
// What a link reports whose peer leaves, and what becomes of one that cannot close in good order.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "switching/memory_world.h"

namespace rocecoll {
namespace {

using std::chrono::milliseconds;

SwitchingOptions WithoutFailover() {
  SwitchingOptions options = MemoryWorld::Options();
  options.failover = false;
  return options;
}

TEST(SwitchingLeaving, BeforeThePathIsProvedDeliversWhatWasAcceptedAlsoWithoutFailover) {
  MemoryWorld world(2, 1, {}, WithoutFailover());
  const auto [leaving, staying] = world.connect(0, 1);
  ASSERT_TRUE(leaving->send_frame(Text("last words")));
  leaving->close({});
  ASSERT_TRUE(world.run([&, staying = staying] { return world.is_down(staying); }));
  EXPECT_EQ(world.record(staying).frames, std::vector<Bytes>{Text("last words")});
  EXPECT_EQ(world.record(staying).down.front().code(), StatusCode::kPeerLeft);
}

TEST(SwitchingLeaving, AmidAnOperationIsNoFailureOfThePathWithoutFailover) {
  MemoryWorld world(2, 1, {}, WithoutFailover());
  const auto [leaving, staying] = world.connect(0, 1);
  ASSERT_TRUE(
      world.run([&] { return world.carries(Between(0, 1)) && world.carries(Between(1, 0)); }));
  Bytes target(100'000);
  leaving->expose({target.data(), target.size(), kUnregistered}, 1);
  leaving->close({});
  ASSERT_TRUE(world.run([&, staying = staying] { return world.is_down(staying); }));
  EXPECT_EQ(world.record(staying).down.front().code(), StatusCode::kPeerLeft);
}

// One link, whose peer is played by the test: over a bare control link and an end in memory.
class SwitchingPlayed : public testing::Test, public VirtualWorld {
 protected:
  SwitchingPlayed() {
    use_clock(queue_);
    auto device = std::make_unique<MemoryDevice>(fabric_);
    add(std::make_unique<SwitchingTransport>(
        std::make_unique<DatagramTransport>(network_.add_endpoint(), ConnectionOptions()),
        std::move(device), MemoryWorld::Options(), "no memory"));
    add(std::make_unique<DatagramTransport>(network_.add_endpoint(), ConnectionOptions()));
    std::tie(link_, peer_) = connect(0, 1);
  }
  ~SwitchingPlayed() override {
    for (size_t i = 0; i < nodes.size(); ++i) destroy(i);
  }
  void kill(size_t i) override { destroy(i); }

  void SetUp() override {
    ASSERT_TRUE(their_path_->prepare().ok());
    SwitchingOffer ours;
    ours.ends = their_path_->ends();
    say(WriteOffer(ours));
    ASSERT_TRUE(run([this] { return heard(ControlType::kReady); }));
    const auto offer = ParseOffer(record(peer_).frames.front());
    ASSERT_TRUE(offer && their_path_->connect(offer->ends).ok() && their_path_->probe().ok());
    say(WriteReady(0));
    say(WriteVerdict({0, true, ""}));
    ASSERT_TRUE(run([this] { return heard(ControlType::kVerdict); }));
  }
  void say(const WireBytes& frame) { ASSERT_TRUE(peer_->send_frame(frame)); }
  bool heard(ControlType type) {
    return std::ranges::any_of(record(peer_).frames, [type](const Bytes& frame) {
      return static_cast<ControlType>(frame.front()) == type;
    });
  }
  void break_path() { fabric_.ends.begin()->second->break_end(); }

  EventQueue queue_;
  SimNetwork network_{queue_, 1, {}};
  MemoryFabric fabric_{queue_};
  MemoryDevice their_device_{fabric_};
  const std::unique_ptr<FastPath> their_path_ = their_device_.make_path();
  Link* link_ = nullptr;
  Link* peer_ = nullptr;
};

// After GOODBYE the link waits for messages that the peer has sent and that have not come yet.
class SwitchingHeld : public SwitchingPlayed {
 protected:
  void SetUp() override {
    SwitchingPlayed::SetUp();
    say(WriteGoodbye(1));
    their_path_->destroy();
    peer_->close({});
    run_for(milliseconds(100));
    ASSERT_FALSE(is_down(link_));
  }
};

TEST_F(SwitchingHeld, IsDownAfterASecond) {
  ASSERT_TRUE(run([this] { return is_down(link_); }, std::chrono::seconds(1)));
  EXPECT_EQ(link_->status().code(), StatusCode::kPeerLeft);
}

TEST_F(SwitchingHeld, IsDownAtOnceIfThePathBreaksMeanwhile) {
  break_path();
  ASSERT_TRUE(run([this] { return is_down(link_); }, milliseconds(1)));
  EXPECT_EQ(link_->status().code(), StatusCode::kPeerLeft);
}

TEST_F(SwitchingHeld, CanBeClosedWithAFrameThatNobodyAcknowledges) {
  ASSERT_TRUE(link_->send_frame(Text("too late")));
  link_->close({});
  EXPECT_TRUE(run([this] { return !lingering(); }));
}

TEST_F(SwitchingPlayed, TellsThePeerWhyItCouldNotCloseInGoodOrder) {
  break_path();
  ASSERT_TRUE(link_->send_frame(Text("for the next generation")));
  link_->close({});
  say(Text("\x7f"));
  ASSERT_TRUE(run([this] { return is_down(peer_); }));
  EXPECT_EQ(record(peer_).down.front().code(), StatusCode::kNetwork);
  EXPECT_NE(record(peer_).down.front().message().find("an unknown message"), std::string::npos);
  EXPECT_TRUE(run([this] { return !lingering(); }));
}

}  // namespace
}  // namespace rocecoll
