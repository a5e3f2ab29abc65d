// SPDX-License-Identifier: Apache-2.0
// What a datagram transport sends at once, and what it sends together with the next content.
#include <gtest/gtest.h>

#include <tuple>

#include "datagram/transport_world.h"
#include "transport/datagram/reliability/ack_tracker.h"

namespace rocecoll {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// Two processes whose connection is quiet, each polled when the test says so.
class DatagramUrgency : public testing::Test {
 protected:
  DatagramUrgency() {
    std::tie(here_, there_) = world_.connect(0, 1);
    world_.run_for(milliseconds(5));
  }
  uint64_t sent(size_t node) { return world_[node].transport->stats().packets_sent; }
  // Everything sent so far arrives, but the receiver does not look at it.
  void travel() { world_.queue.run_until(world_.now() + microseconds(50)); }
  // Starts a write from the first process to the second.
  void start(const Bytes& from, Bytes& into) {
    ASSERT_TRUE(here_->write(there_->expose(Slice(into), 1), Slice(from), 1));
  }
  // Starts the same write and lets all of it travel.
  void write(const Bytes& from, Bytes& into) {
    start(from, into);
    while (world_[0].poll(world_.now()), world_[0].transport->next_deadline() <= world_.now()) {
    }
    travel();
  }
  // Makes the windows large.
  void widen() {
    const Bytes large = RandomBytes(8 << 20, 1);
    Bytes into(large.size());
    start(large, into);
    ASSERT_TRUE(world_.run([&] { return world_.transferred(here_, there_, 1); }));
    world_.run_for(milliseconds(5));
  }
  static LocalSlice Slice(const Bytes& bytes) {
    return {const_cast<std::byte*>(bytes.data()), bytes.size()};
  }

  SimWorld world_{2};
  Link* here_ = nullptr;
  Link* there_ = nullptr;
};

TEST_F(DatagramUrgency, AnAcknowledgementGoesWithTheAnswer) {
  const Bytes question = RandomBytes(1000, 1);
  Bytes into(question.size());
  write(question, into);
  const uint64_t before = sent(1);
  ASSERT_EQ(world_[1].poll(world_.now()), 1u);
  EXPECT_EQ(sent(1), before);
  ASSERT_TRUE(there_->send_frame(Text("answer")));
  EXPECT_EQ(world_[1].poll(world_.now()), 0u);
  EXPECT_EQ(sent(1), before + 1);
  travel();
  EXPECT_EQ(world_[0].poll(world_.now()), 2u);
  EXPECT_EQ(world_.record(here_).written.size(), 1u);
  EXPECT_EQ(world_.record(here_).frames.size(), 1u);
}

TEST_F(DatagramUrgency, AnAcknowledgementWithoutAnAnswerGoesWithTheNextPoll) {
  const Bytes question = RandomBytes(1000, 1);
  Bytes into(question.size());
  write(question, into);
  const uint64_t before = sent(1);
  ASSERT_EQ(world_[1].poll(world_.now()), 1u);
  EXPECT_LE(world_[1].transport->next_deadline(), world_.now());
  EXPECT_EQ(world_[1].poll(world_.now()), 0u);
  EXPECT_EQ(sent(1), before + 1);
}

TEST_F(DatagramUrgency, WithoutAnEventNothingWaits) {
  widen();
  const Bytes large = RandomBytes(1 << 20, 1);
  Bytes into(large.size());
  start(large, into);
  const uint64_t first = sent(0);
  world_[0].poll(world_.now());
  ASSERT_GT(sent(0), first + AckTracker::kPacketsPerAck);
  travel();
  const uint64_t before = sent(1);
  EXPECT_EQ(world_[1].poll(world_.now()), 0u);
  EXPECT_EQ(sent(1), before + 1);
}

TEST_F(DatagramUrgency, ContentDoesNotWaitForTheCaller) {
  const Bytes question = RandomBytes(1000, 1);
  Bytes into(question.size());
  Bytes large = RandomBytes(1 << 20, 2);
  Bytes large_into(large.size());
  ASSERT_TRUE(there_->write(here_->expose(Slice(large_into), 7), Slice(large), 7));
  write(question, into);
  world_[1].poll(world_.now());  // sends what the window allows
  travel();
  world_[0].poll(world_.now());  // acknowledges it
  travel();
  const uint64_t before = sent(1);
  ASSERT_TRUE(here_->send_frame(Text("more")));
  world_[0].poll(world_.now());
  travel();
  ASSERT_EQ(world_[1].poll(world_.now()), 1u);
  EXPECT_GT(sent(1), before + 1);
}

TEST_F(DatagramUrgency, TransmitSendsWhatIsAwaitedWithoutAPoll) {
  const Bytes question = RandomBytes(1000, 1);
  Bytes into(question.size());
  write(question, into);
  ASSERT_EQ(world_[1].poll(world_.now()), 1u);
  const uint64_t before = sent(1);
  world_[1].transport->transmit(world_.now());
  EXPECT_EQ(sent(1), before + 1);
  ASSERT_TRUE(there_->send_frame(Text("last words")));
  world_[1].transport->transmit(world_.now());
  EXPECT_EQ(sent(1), before + 2);
  travel();
  EXPECT_EQ(world_[0].poll(world_.now()), 2u);
}

TEST_F(DatagramUrgency, TransmitLeavesAnAcknowledgementThatNobodyWaitsFor) {
  widen();
  for (uint32_t i = 0; i < AckTracker::kPacketsPerAck; ++i) {
    ASSERT_TRUE(here_->send_frame(RandomBytes(1000, i)));
    world_[0].poll(world_.now());
    travel();
  }
  const uint64_t before = sent(1);
  ASSERT_EQ(world_[1].poll(world_.now(), 64), AckTracker::kPacketsPerAck);
  world_[1].transport->transmit(world_.now());
  EXPECT_EQ(sent(1), before);
  world_[1].poll(world_.now());
  EXPECT_EQ(sent(1), before + 1);
}

}  // namespace
}  // namespace rocecoll
