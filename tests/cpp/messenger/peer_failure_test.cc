// SPDX-License-Identifier: Apache-2.0
// Peers that die, leave or abort; and what fail() promises about lent memory.
#include <gtest/gtest.h>

#include <algorithm>

#include "messenger/world.h"

namespace rocecoll {
namespace {

TEST(PeerFailure, DeathFailsWhatIsPending) {
  for (const size_t size : {8u, 5000u}) {
    for (const bool sends : {true, false}) {
      if (sends && size == 8) continue;  // complete as soon as it was accepted
      World world(SmallWorld());
      Payload payload(size);
      if (sends) {
        world.send(0, 1, CollectiveTag(1), payload, 1);
      } else {
        world.recv(0, 1, CollectiveTag(1), payload, 1);
      }
      world.settle();
      world.fabric().kill(1);
      ASSERT_TRUE(world.run_until_failure(0));
      EXPECT_EQ(world[0].failure()->status.code(), StatusCode::kPeerLost);
      EXPECT_EQ(world[0].failure()->peer, 1u);
      EXPECT_TRUE(world.done(0).empty());
    }
  }
}

TEST(PeerFailure, DeathWithNothingPendingFailsTheNextPost) {
  World world(SmallWorld());
  Payload from(8), into(8);
  world.send(0, 1, CollectiveTag(1), from, 1);
  world.recv(1, 0, CollectiveTag(1), into, 2);
  ASSERT_TRUE(world.run_until_done(1, 2));
  world.fabric().kill(1);
  world.settle();
  EXPECT_EQ(world[0].failure(), nullptr);
  world.recv(0, 1, CollectiveTag(2), into, 3);
  ASSERT_NE(world[0].failure(), nullptr);
  EXPECT_EQ(world[0].failure()->status.code(), StatusCode::kPeerLost);
  EXPECT_EQ(world[0].failure()->peer, 1u);
}

TEST(PeerFailure, OtherRanksGoOnWithoutADeadOneThatNobodyWaitsFor) {
  WorldOptions options = SmallWorld();
  options.ranks = 3;
  World world(options);
  Payload from(5000, 4), into = Payload::Blank(5000);
  world.send(0, 2, CollectiveTag(1), from, 1);
  world.fabric().kill(2);
  ASSERT_TRUE(world.run_until_failure(0));
  world.recv(1, 0, CollectiveTag(2), into, 2);
  world.settle();
  EXPECT_EQ(world[1].failure(), nullptr);
}

TEST(PeerFailure, WhatAPeerSentBeforeItLeftIsStillReceived) {
  World world(SmallWorld());
  Payload first(8, 1), second(100, 2), into_first(8), into_second(100), never(8);
  world.recv(1, 0, CollectiveTag(1), into_first, 1);
  world.send(0, 1, CollectiveTag(1), first, 1);
  world.send(0, 1, CollectiveTag(2), second, 2);
  world.destroy(0);
  world.settle();
  EXPECT_TRUE(world.done(1).contains(1));
  EXPECT_EQ(into_first, first);
  EXPECT_EQ(world[1].failure(), nullptr);
  world.recv(1, 0, CollectiveTag(2), into_second, 2);
  ASSERT_TRUE(world.run_until_done(1, 2));
  EXPECT_EQ(into_second, second);
  EXPECT_EQ(world[1].failure(), nullptr);
  world.recv(1, 0, CollectiveTag(3), never, 3);
  ASSERT_NE(world[1].failure(), nullptr);
  EXPECT_EQ(world[1].failure()->status.code(), StatusCode::kPeerLeft);
}

TEST(PeerFailure, LeavingWhileAPeerWaitsFailsThePeer) {
  World world(SmallWorld());
  Payload into(8);
  world.recv(1, 0, CollectiveTag(1), into, 1);
  Payload other(8);
  world.send(0, 1, CollectiveTag(2), other, 2);
  world.settle();
  world.destroy(0);
  ASSERT_TRUE(world.run_until_failure(1));
  EXPECT_EQ(world[1].failure()->status.code(), StatusCode::kPeerLeft);
}

TEST(PeerFailure, AbortCarriesItsReasonToThePeer) {
  World world(SmallWorld());
  Payload into(8), from(5000);
  world.recv(1, 0, CollectiveTag(1), into, 1);
  world.send(0, 1, CollectiveTag(2), from, 1);
  world.settle();
  world[0].fail(Status(StatusCode::kTimeout, "all_reduce 17 took too long"));
  ASSERT_TRUE(world.run_until_failure(1));
  EXPECT_EQ(world[1].failure()->status.code(), StatusCode::kTimeout);
  EXPECT_EQ(world[1].failure()->status.reporter(), 0u);
  EXPECT_EQ(world[1].failure()->status.message(), "all_reduce 17 took too long");
}

TEST(PeerFailure, UnreachableAddressFailsAtOnce) {
  SimFabric fabric(SimFabricOptions{});
  const std::byte foreign[3] = {};
  Messenger messenger(fabric.transport(0), GroupKey{1, 2}, 0,
                      {fabric.transport(0).address(), Address(foreign, "elsewhere")},
                      MessengerOptions{});
  Payload payload(8);
  messenger.send(fabric.now(), 1, CollectiveTag(1), PrintOf(1), payload.slice(), 1);
  ASSERT_NE(messenger.failure(), nullptr);
  EXPECT_EQ(messenger.failure()->status.code(), StatusCode::kInvalidArgument);
}

TEST(PeerFailure, NobodyAnsweringTimesOut) {
  WorldOptions options = SmallWorld();
  options.messenger.connect_timeout = std::chrono::seconds(1);
  World world(options);
  Payload into(8);
  world.recv(0, 1, CollectiveTag(1), into, 1);
  ASSERT_TRUE(world.run_until_failure(0));
  EXPECT_EQ(world[0].failure()->status.code(), StatusCode::kTimeout);
}

// fail() at any moment of a transfer: afterwards the receiver's memory does not change and the
// sender's is not read (the receiver would see the poison).
TEST(PeerFailure, NothingTouchesLentMemoryAfterFail) {
  for (int microseconds = 0; microseconds < 60; microseconds += 2) {
    for (const Rank failing : {0u, 1u}) {
      WorldOptions options = SmallWorld();
      options.fabric.ns_per_byte = 1.0;
      World world(options);
      Payload from(20000, 1), into = Payload::Blank(20000);
      world.send(0, 1, CollectiveTag(1), from, 1);
      world.recv(1, 0, CollectiveTag(1), into, 2);
      world.settle(std::chrono::microseconds(microseconds));
      const bool sent = world.done(0).contains(1);
      const bool arrived = world.done(1).contains(2);
      world[failing].fail(Status(StatusCode::kAborted, "stop"));
      const Payload seen = into;
      if (failing == 0) std::ranges::fill(from.bytes, std::byte{0xdd});
      world.settle(std::chrono::milliseconds(50));
      if (failing == 1) {
        EXPECT_EQ(into, seen) << microseconds;
      } else {
        EXPECT_EQ(std::ranges::count(into.bytes, std::byte{0xdd}),
                  std::ranges::count(seen.bytes, std::byte{0xdd}))
            << microseconds;
      }
      EXPECT_EQ(world.done(0).contains(1), failing == 0 ? sent : world.done(0).contains(1));
      EXPECT_EQ(world.done(failing).contains(failing == 0 ? 1 : 2), failing == 0 ? sent : arrived);
    }
  }
}

}  // namespace
}  // namespace rocecoll
