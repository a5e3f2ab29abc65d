// SPDX-License-Identifier: Apache-2.0
// Ports that accept no datagrams for a long time: a paused device, a full socket buffer.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "base/take_log.h"
#include "datagram/transport_world.h"

namespace rocecoll {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Runs the world until `done`, for at most `limit`. Returns how often the first node, which only
// waits for its transport, was woken.
size_t CountWakes(SimWorld& world, const std::function<bool()>& done, Duration limit) {
  const Instant end = world.now() + limit;
  size_t wakes = 0;
  while (!done() && world.now() < end) {
    ++wakes;
    while (world[0].poll(world.now()) > 0) {
    }
    for (size_t i = 1; i < world.nodes.size(); ++i) {
      if (world[i].transport != nullptr) world[i].poll(world.now());
    }
    Instant next = std::min(end, world[0].transport->next_deadline());
    for (size_t i = 1; i < world.nodes.size(); ++i) {
      if (world[i].transport != nullptr) {
        next = std::min(next, world[i].transport->next_deadline());
      }
    }
    world.wait(next);
  }
  return wakes;
}

TEST(FullPort, SilentPeersAreFoundInTimeAndWithoutSpinning) {
  for (const bool busy : {false, true}) {
    SimWorld world(4);
    std::vector<Link*> links;
    for (uint32_t i = 1; i < 4; ++i) {
      links.push_back(world.open(0, i));
      world.open(i, 0);
    }
    world.run_for(milliseconds(600));
    world.ports[0]->set_send_room(0);
    for (uint32_t i = 1; i < 4; ++i) world.kill(i);
    if (busy) {
      for (Link* link : links) ASSERT_TRUE(link->send_frame(Text("anybody there?")));
    }
    const Instant start = world.now();
    const auto all_down = [&] {
      return std::ranges::all_of(links, [&](Link* link) { return world.is_down(link); });
    };
    const size_t wakes = CountWakes(world, all_down, seconds(60));
    ASSERT_TRUE(all_down());
    for (Link* link : links) EXPECT_EQ(link->status().code(), StatusCode::kPeerLost);
    // The peers were last heard up to a heartbeat before.
    EXPECT_GE(world.now() - start, milliseconds(9400));
    EXPECT_LE(world.now() - start, milliseconds(10'100));
    EXPECT_LE(wakes, 2500u);  // instead of 200,000 at 50 us
  }
}

TEST(FullPort, ALinkThatCannotEvenAskTimesOut) {
  SimWorld world(2);
  world.ports[0]->set_send_room(0);
  Link* other = world.open(0, 1, 1);
  world.run_for(milliseconds(100));
  Link* link = world.open(0, 1, 2, milliseconds(500));
  const Instant start = world.now();
  ASSERT_TRUE(world.run([&] { return world.is_down(link); }, seconds(5)));
  EXPECT_EQ(link->status().code(), StatusCode::kTimeout);
  EXPECT_LE(world.now() - start, milliseconds(600));
  EXPECT_FALSE(world.is_down(other));
}

TEST(FullPort, AfterALongRefusalEverythingGoesOn) {
  SimWorld world(2);
  auto [out, in] = world.connect(0, 1);
  world.run_for(milliseconds(5));
  const Bytes source = RandomBytes(200'000, 1);
  Bytes target(source.size());
  const RemoteSlice slice = in->expose({target.data(), target.size()}, 1);
  world.ports[0]->set_send_room(0);
  ASSERT_TRUE(out->write(slice, {const_cast<std::byte*>(source.data()), source.size()}, 2));
  world.run_for(seconds(8));
  world.ports[0]->set_send_room(SIZE_MAX);
  const Instant start = world.now();
  ASSERT_TRUE(world.run([&] { return world.transferred(out, in, 1); }));
  EXPECT_LE(world.now() - start, milliseconds(100));
  EXPECT_EQ(source, target);
  EXPECT_FALSE(world.is_down(out));
}

TEST(FullPort, SaysSoOnceWhenItLasts) {
  SimWorld world(2);
  auto [out, in] = world.connect(0, 1);
  world.run_for(milliseconds(5));
  TakeLog();
  for (int i = 0; i < 2; ++i) {
    world.ports[0]->set_send_room(0);
    ASSERT_TRUE(out->send_frame(Text("hello")));
    world.run_for(milliseconds(900));
    EXPECT_TRUE(TakeLog().empty());
    world.run_for(seconds(5));
    const auto log = TakeLog();
    ASSERT_EQ(log.size(), 1u);
    EXPECT_EQ(log[0].severity, Severity::kWarning);
    EXPECT_NE(log[0].text.find(world.addresses[0].text()), std::string::npos) << log[0].text;
    EXPECT_NE(log[0].text.find("has taken no packet"), std::string::npos) << log[0].text;
    world.ports[0]->set_send_room(SIZE_MAX);
    world.run_for(milliseconds(100));
  }
  EXPECT_EQ(world.record(in).frames.size(), 2u);
}

TEST(FullPort, NoticesWaitForRoomWithinBounds) {
  SimWorld world(40);
  world.ports[0]->set_send_room(0);
  for (uint32_t i = 1; i < 40; ++i) world[0].transport->notify(world.addresses[i], Text("the end"));
  EXPECT_TRUE(world[0].transport->lingering());
  world.run_for(seconds(2));
  for (uint32_t i = 1; i < 40; ++i) EXPECT_TRUE(world[i].notices.empty());
  world.ports[0]->set_send_room(SIZE_MAX);
  world.run_for(milliseconds(50));
  EXPECT_FALSE(world[0].transport->lingering());
  for (uint32_t i = 1; i < 40; ++i) EXPECT_EQ(world[i].notices.size(), 1u) << i;
  EXPECT_EQ(world[0].transport->next_deadline(), kNever);

  world.ports[0]->set_send_room(0);
  for (size_t i = 0; i < 2 * NoticeQueue::kMaxWaiting; ++i) {
    world[0].transport->notify(world.addresses[1], Text("again"));
  }
  world.ports[0]->set_send_room(SIZE_MAX);
  world.run_for(milliseconds(50));
  EXPECT_EQ(world[1].notices.size(), 1 + NoticeQueue::kMaxWaiting);
}

// If the queue of a device is full (ENOBUFS), the device has dropped what it refuses: each datagram
// counts as sent once, is missed once, and is sent again once. Meanwhile no process spins.
TEST(FullPort, WhatADeviceRefusesIsSentAgainOnce) {
  SimWire wire;
  wire.bytes_per_second = 125e6;
  SimWorld world(2, wire);
  auto [out, in] = world.connect(0, 1);
  world.run_for(milliseconds(5));
  const Bytes source = RandomBytes(2'000'000, 1);
  Bytes target(source.size());
  const RemoteSlice slice = in->expose({target.data(), target.size()}, 1);
  ASSERT_TRUE(out->write(slice, {const_cast<std::byte*>(source.data()), source.size()}, 2));
  const auto counts = [&] { return world[0].transport->stats(); };
  const uint64_t handed_before = world.network.stats().sent;
  const uint64_t answers_before = world[1].transport->stats().packets_sent;
  const TransportStats before = counts();
  uint64_t refused = 0;
  for (int i = 0; i < 5; ++i) {
    world.run_for(milliseconds(1));
    world.ports[0]->set_refused(1, true);
    const uint64_t sent = counts().packets_sent;
    EXPECT_LE(CountWakes(world, [] { return false; }, milliseconds(1)), 200u);
    refused += counts().packets_sent - sent;
    world.ports[0]->set_refused(1, false);
  }
  ASSERT_TRUE(world.run([&] { return world.transferred(out, in, 1); }));
  EXPECT_EQ(source, target);
  const TransportStats after = counts();
  const uint64_t answers = world[1].transport->stats().packets_sent - answers_before;
  const uint64_t handed = world.network.stats().sent - handed_before - answers;
  EXPECT_GT(refused, 0u);
  EXPECT_EQ(after.packets_sent - before.packets_sent, handed + refused);
  EXPECT_LE(after.packets_retransmitted - before.packets_retransmitted, refused);
}

TEST(FullPort, RefusedTowardsOnePeerTheOthersGoOn) {
  SimWorld world(3);
  auto [to_refused, refused] = world.connect(0, 1);
  auto [out, in] = world.connect(0, 2);
  world.run_for(milliseconds(5));
  world.ports[0]->set_refused(1, true);
  world.network.wire(1, 0).blocked = true;
  Bytes lent(1 << 20);
  const RemoteSlice slice = refused->expose({lent.data(), lent.size()}, 1);
  ASSERT_TRUE(to_refused->write(slice, {lent.data(), lent.size()}, 2));
  const Instant start = world.now();
  Bytes source = RandomBytes(64 * 1024, 3);
  Bytes target(source.size());
  for (uint32_t i = 1; i <= 100; ++i) {
    const RemoteSlice to = in->expose({target.data(), target.size()}, i);
    ASSERT_TRUE(out->write(to, {source.data(), source.size()}, i));
    ASSERT_TRUE(world.run([&] { return world.transferred(out, in, i); }));
  }
  EXPECT_EQ(source, target);
  EXPECT_LE(world.now() - start, milliseconds(500));
  ASSERT_TRUE(world.run([&] { return world.is_down(to_refused); }));
  EXPECT_EQ(to_refused->status().code(), StatusCode::kPeerLost);
  EXPECT_LE(world.now() - start, milliseconds(10'600));
  EXPECT_FALSE(world.is_down(out));
}

}  // namespace
}  // namespace rocecoll
