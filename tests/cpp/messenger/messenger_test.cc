// SPDX-License-Identifier: Apache-2.0
// Delivery: sizes around the eager limit, both orders of posting, bounded queues, randomized
// exchanges.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>

#include "base/random.h"
#include "messenger/message_wire.h"
#include "messenger/world.h"

namespace rocecoll {
namespace {

TEST(Messenger, EagerLimitLeavesRoomForTheHeader) {
  World world(SmallWorld());
  EXPECT_EQ(world[0].eager_limit().bytes, 256 - MessageFrame::kHeaderBytes);
  WorldOptions options = SmallWorld();
  options.messenger.eager_bytes = 100;
  World smaller(options);
  EXPECT_EQ(smaller[0].eager_limit().bytes, 100u);
}

TEST(Messenger, AllSizesInBothOrdersOfPosting) {
  for (size_t size : {0u, 1u, 8u, 199u, 200u, 201u, 256u, 4096u, 1000003u}) {
    for (bool send_first : {true, false}) {
      SCOPED_TRACE(testing::Message() << size << (send_first ? " send" : " recv") << " first");
      ExpectExchange(SmallWorld(), size, send_first);
    }
  }
}

TEST(Messenger, SmallSendWithCreditCompletesAtOnce) {
  World world(SmallWorld());
  Payload from(8);
  world.send(0, 1, CollectiveTag(1), from, 1);
  MessageCompletion completion;
  ASSERT_TRUE(world[0].poll(completion));
  EXPECT_EQ(completion.token, 1u);
  EXPECT_FALSE(world[0].poll(completion));
}

TEST(Messenger, LargeSendReadsNothingBeforeItsReceiveIsPosted) {
  World world(SmallWorld());
  Payload from(5000, 1);
  world.send(0, 1, CollectiveTag(1), from, 1);
  world.settle();
  EXPECT_TRUE(world.done(0).empty());
  std::ranges::copy(Payload(5000, 2).bytes, from.bytes.begin());
  Payload into = Payload::Blank(5000);
  world.recv(1, 0, CollectiveTag(1), into, 2);
  ASSERT_TRUE(world.run_until_done(0, 1));
  EXPECT_EQ(into, Payload(5000, 2));
}

TEST(Messenger, ManyLargeMessagesBothWaysThroughNarrowQueues) {
  WorldOptions options = SmallWorld();
  options.fabric.max_queued_frames = 2;
  options.fabric.max_queued_writes = 1;
  World world(options);
  constexpr uint32_t kMessages = 300;
  std::deque<Payload> from, into;
  for (uint32_t i = 0; i < kMessages; ++i) {
    for (Rank r : {0u, 1u}) {
      from.emplace_back(300 + i, i * 2 + r);
      world.send(r, 1 - r, CollectiveTag(i % 3, i, r), from.back(), i);
      into.push_back(Payload::Blank(300 + i));
      world.recv(1 - r, r, CollectiveTag(i % 3, i, r), into.back(), 1000 + i);
    }
  }
  ASSERT_TRUE(world.run([&] {
    return world.done(0).size() == 2 * kMessages && world.done(1).size() == 2 * kMessages;
  }));
  EXPECT_EQ(into, from);
}

TEST(Messenger, FrameQueueFullLosesNothingAndKeepsNobodyWaiting) {
  WorldOptions options = SmallWorld();
  options.fabric.max_queued_frames = 1;
  options.messenger.eager_credits = 64;
  World world(options);
  std::deque<Payload> from, into;
  for (uint32_t i = 0; i < 100; ++i) {
    from.emplace_back(i % 50, i);
    into.push_back(Payload::Blank(i % 50));
    world.recv(1, 0, CollectiveTag(1, i), into.back(), i);
  }
  for (uint32_t i = 0; i < 100; ++i) world.send(0, 1, CollectiveTag(1, i), from[i], i);
  ASSERT_TRUE(world.run([&] { return world.done(1).size() == 100; }));
  EXPECT_EQ(world.done(0).size(), 100u);
  EXPECT_EQ(into, from);
}

TEST(Messenger, WaitingForNamesTheRanksOfOneOperation) {
  WorldOptions options = SmallWorld();
  options.ranks = 4;
  World world(options);
  Payload small(8), large(1000), other(8);
  world.recv(0, 3, CollectiveTag(5, 1), small, 1);
  world.send(0, 1, CollectiveTag(5, 2), large, 2);
  world.recv(0, 1, CollectiveTag(5, 3), other, 3);
  world.recv(0, 2, CollectiveTag(6), other, 4);
  EXPECT_EQ(world[0].waiting_for(CollectiveTag(5)), (std::vector<Rank>{1, 3}));
  EXPECT_EQ(world[0].waiting_for(CollectiveTag(7)), std::vector<Rank>{});
}

// Every rank posts the same random list of messages, each at random times and in random order.
struct Planned {
  Rank from, to;
  Tag tag;
  size_t size;
};

void RunRandomExchange(uint64_t seed) {
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Random random(seed);
  WorldOptions options = SmallWorld();
  options.ranks = 2 + static_cast<uint32_t>(random.below(4));
  options.messenger.eager_credits = 1 + static_cast<uint32_t>(random.below(6));
  options.fabric.max_queued_frames = 1 + static_cast<uint32_t>(random.below(8));
  options.fabric.max_queued_writes = 1 + static_cast<uint32_t>(random.below(3));
  options.fabric.max_jitter = std::chrono::microseconds(random.below(30));
  options.fabric.seed = seed;
  World world(options);

  std::vector<Planned> plan;
  for (uint32_t i = 0; i < 400; ++i) {
    const Rank from = static_cast<Rank>(random.below(options.ranks));
    const Rank to = (from + 1 + static_cast<Rank>(random.below(options.ranks - 1))) % options.ranks;
    const size_t size = random.chance(0.8) ? random.below(210) : random.below(5000);
    plan.push_back({from, to, random.chance(0.5) ? PointToPointTag(i) : CollectiveTag(3, i), size});
  }
  std::deque<Payload> from, into;
  std::vector<uint32_t> posts;  // 2 * message + (1 for the receive)
  for (uint32_t i = 0; i < plan.size(); ++i) {
    from.emplace_back(plan[i].size, i);
    into.push_back(Payload::Blank(plan[i].size));
    posts.push_back(2 * i);
    posts.push_back(2 * i + 1);
  }
  for (size_t i = posts.size(); i > 1; --i) std::swap(posts[i - 1], posts[random.below(i)]);
  for (uint32_t post : posts) {
    const uint32_t i = post / 2;
    if (post % 2 == 0) {
      world.send(plan[i].from, plan[i].to, plan[i].tag, from[i], 2 * i);
    } else {
      world.recv(plan[i].to, plan[i].from, plan[i].tag, into[i], 2 * i + 1);
    }
    if (random.chance(0.3)) world.settle(std::chrono::microseconds(random.below(40)));
  }
  const auto all = [&] {
    size_t count = 0;
    for (Rank r = 0; r < options.ranks; ++r) count += world.done(r).size();
    return count == posts.size();
  };
  ASSERT_TRUE(world.run(all));
  EXPECT_EQ(into, from);
  for (Rank r = 0; r < options.ranks; ++r) EXPECT_EQ(world[r].failure(), nullptr);
}

TEST(Messenger, RandomExchanges) {
  for (uint64_t seed = 1; seed <= 150 && !testing::Test::HasFailure(); ++seed) {
    RunRandomExchange(seed);
  }
}

}  // namespace
}  // namespace rocecoll
