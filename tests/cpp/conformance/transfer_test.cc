// SPDX-License-Identifier: Apache-2.0
// Frames and writes: what is sent arrives, whole, once, and in order where order is promised.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/run_choice.h"
#include "conformance/exchange.h"
#include "conformance/worlds.h"

namespace rocecoll {
namespace {

// Over all the ways that the link has taken.
uint64_t Sum(const Link* link, uint64_t Traffic::* count) {
  uint64_t sum = 0;
  for (const PathStats& way : link->path_stats()) sum += way.traffic.*count;
  return sum;
}

class Transfers : public Conformance {};
INSTANTIATE_TEST_SUITE_P(All, Transfers, testing::ValuesIn(AllWorlds()), NameOf);

TEST_P(Transfers, FramesOfEverySizeArriveInOrder) {
  const auto world = make(2);
  const auto [a, b] = world->connect(0, 1);
  const size_t longest = (*world)[0].transport->limits().max_frame_bytes;
  std::vector<Bytes> frames;
  for (size_t size = 1; size < longest; size += 1 + size / 8) {
    frames.push_back(RandomBytes(size, size));
  }
  frames.push_back(RandomBytes(longest - 1, 1));
  frames.push_back(RandomBytes(longest, 2));
  size_t sent = 0;
  EXPECT_TRUE(world->run([&, from = a, to = b] {
    while (sent < frames.size() && from->send_frame(frames[sent])) ++sent;
    return world->record(to).frames.size() == frames.size();
  }));
  EXPECT_EQ(world->record(b).frames, frames);
}

TEST_P(Transfers, AFrameIsCopiedWhenItIsSent) {
  const auto world = make(2);
  const auto [a, b] = world->connect(0, 1);
  Bytes frame = Text("as it was");
  ASSERT_TRUE(a->send_frame(frame));
  std::fill(frame.begin(), frame.end(), std::byte{0});
  ASSERT_TRUE(world->run([&, to = b] { return world->record(to).frames.size() == 1; }));
  EXPECT_EQ(world->record(b).frames[0], Text("as it was"));
}

TEST_P(Transfers, FramesAndWritesOfManySizesBothWays) {
  ExchangeAll(*make(2),
              {.write_sizes = {1, 2, 7, 1000, 1400, 1452, 1453, 4096, 4097, 65536, 1000003},
               .frames = 300});
}

// What the other tests prove they prove of the path that the world is named after.
TEST_P(Transfers, ThePathThatIsMeantCarriesTheData) {
  const auto world = make(3);
  for (const auto& [a, b] : {std::pair{0u, 1u}, {0u, 2u}, {1u, 2u}}) {
    const auto [out, in] = world->connect(a, b);
    RandomWrite write(100000, 1);
    ASSERT_TRUE(write.start(out, in, 1));
    ASSERT_TRUE(world->run([&, from = out, to = in] {
      return world->transferred(from, to, 1) && world->carries(from->id()) &&
             world->carries(to->id());
    }));
  }
}

TEST_P(Transfers, ALinkCountsWhatItHasCarriedByItsWays) {
  const auto world = make(2);
  const auto [a, b] = world->connect(0, 1);
  if (a->path_stats().empty()) GTEST_SKIP() << "this transport keeps no counts of a link";
  const auto in_use = [](Link* link) {
    std::vector<PathStats> ways = link->path_stats();
    std::erase_if(ways, [](const PathStats& way) { return !way.in_use; });
    EXPECT_EQ(ways.size(), 1u);
    return ways.empty() ? PathStats() : ways.front();
  };
  RandomWrite write(100000, 1);
  ASSERT_TRUE(write.start(a, b, 1));
  ASSERT_TRUE(world->run([&, from = a, to = b] {
    return world->transferred(from, to, 1) && world->carries(from->id()) &&
           world->carries(to->id()) && in_use(from).path == in_use(to).path;
  }));
  EXPECT_GE(Sum(a, &Traffic::bytes_sent), write.source.size());
  EXPECT_GE(Sum(b, &Traffic::bytes_received), write.source.size());
  const PathStats way = in_use(a);
  const bool over_datagrams = way.path == "udp" || way.path == "ud";
  EXPECT_EQ(way.rtt.has_value(), over_datagrams) << way.path;
  EXPECT_EQ(way.congestion_window_bytes.has_value(), over_datagrams) << way.path;
}

// Who has something else to do than to poll says so.
TEST_P(Transfers, WhatALinkWasGivenGoesWithoutAPoll) {
  const auto world = make(2);
  const auto [a, b] = world->connect(0, 1);
  if (a->path_stats().empty()) GTEST_SKIP() << "this transport keeps no counts of a link";
  ASSERT_TRUE(a->send_frame(Text("first")));
  ASSERT_TRUE(world->run([&, from = a, to = b] {
    return world->record(to).frames.size() == 1 && world->carries(from->id());
  }));
  world->run_for(std::chrono::milliseconds(100));
  const uint64_t before = Sum(a, &Traffic::bytes_sent);
  ASSERT_TRUE(a->send_frame(Text("last words")));
  (*world)[0].transport->transmit(world->now());
  EXPECT_GT(Sum(a, &Traffic::bytes_sent), before);
  ASSERT_TRUE(world->run([&, to = b] { return world->record(to).frames.size() == 2; }));
}

TEST_P(Transfers, AllToAllAmongThreeAndFive) {
  for (const size_t nodes : {3, 5}) {
    ExchangeAll(*make(nodes), {.write_sizes = {1, 5000, 100000}, .frames = 20});
  }
}

TEST_P(Transfers, TheSmallestQueuesAndOneCreditAreEnough) {
  ExchangeAll(*make_tight(3), {.write_sizes = std::vector<size_t>(30, 3000), .frames = 60});
}

void SurviveDisturbances(const WorldKind& kind, uint64_t seed) {
  SCOPED_TRACE(Replay(seed));
  const auto world = kind.make({.nodes = 3, .seed = seed});
  ExchangeAll(*world, {.write_sizes = {1, 100000, 300000, 2000000},
                       .frames = 500,
                       .disturbances = static_cast<uint32_t>(2 + seed % 10 * 2),
                       .seed = seed,
                       .limit = std::chrono::seconds(500)});
}

TEST_P(Transfers, WhatLinksHaveToSurviveLosesNothing) {
  if (!GetParam().seeded) return SurviveDisturbances(GetParam(), 1);
  for (const uint64_t seed : {1, 2, 3, 4, 5, 6, 7, 8, 103}) {  // the last one has failed once
    SurviveDisturbances(GetParam(), seed);
  }
}

TEST_P(Transfers, ManyMoreDisturbancesLoseNothingSlow) {
  if (!GetParam().seeded) GTEST_SKIP() << "in real time, seeds do not repeat anything";
  for (const uint64_t seed : SeedsOfRun(20, 100, 160)) {
    SurviveDisturbances(GetParam(), seed);
    if (HasFailure()) return;
  }
}

TEST_P(Transfers, ManyMebibytesSlow) {
  const size_t mebibytes = IsNightly() ? 64 : 16;
  ExchangeAll(*make(2), {.write_sizes = {mebibytes << 20}, .limit = std::chrono::seconds(500)});
}

TEST_P(Transfers, ManyExposuresAreWrittenInAnyOrder) {
  const auto world = make(2);
  const auto [a, b] = world->connect(0, 1);
  std::vector<RandomWrite> transfers;
  const uint32_t count = 200;
  for (uint32_t i = 0; i < count; ++i) {
    RandomWrite& one = transfers.emplace_back(1 + i * 37 % 9000, i);
    one.slice = b->expose({one.target.data(), one.target.size()}, i);
    one.exposed = true;
  }
  uint32_t started = 0;
  ASSERT_TRUE(world->run([&, out = a, in = b] {
    while (started < count) {
      const uint32_t index = started * 73 % count;
      if (!transfers[index].start(out, in, index)) break;
      ++started;
    }
    return world->transferred(out, in, count);
  }));
  for (const RandomWrite& one : transfers) EXPECT_EQ(one.source, one.target);
  // Each token once, on both sides.
  for (std::vector<uint32_t> tokens : {world->record(a).written, world->record(b).landed}) {
    std::ranges::sort(tokens);
    for (uint32_t i = 0; i < count; ++i) EXPECT_EQ(tokens[i], i);
  }
}

TEST_P(Transfers, TheSourceIsTheOwnersAgainOnceWritten) {
  const auto world = make(2);
  const auto [a, b] = world->connect(0, 1);
  for (uint32_t i = 0; i < 20; ++i) {
    RandomWrite one(1 + i * 10007, i);
    const Bytes original = one.source;
    ASSERT_TRUE(one.start(a, b, i));
    ASSERT_TRUE(world->run([&, from = a] { return world->record(from).written.size() == i + 1; }));
    std::fill(one.source.begin(), one.source.end(), std::byte{0});
    ASSERT_TRUE(world->run([&, to = b] { return world->record(to).landed.size() == i + 1; }));
    EXPECT_EQ(one.target, original);
  }
}

TEST_P(Transfers, AnExposedSliceCanBeTakenBack) {
  const auto world = make(2);
  const auto [a, b] = world->connect(0, 1);
  Bytes memory(5000, std::byte{7});
  for (int i = 0; i < 10; ++i) {
    b->unexpose(b->expose({memory.data(), memory.size()}, 1));
    world->run_for(std::chrono::microseconds(100));
  }
  EXPECT_EQ(memory, Bytes(5000, std::byte{7}));
  // The same memory may be exposed again, and only what is written arrives.
  const Bytes source = RandomBytes(3000, 1);
  const RemoteSlice slice = b->expose({memory.data(), source.size()}, 2);
  ASSERT_TRUE(a->write(slice, {const_cast<std::byte*>(source.data()), source.size()}, 3));
  ASSERT_TRUE(world->run([&, out = a, in = b] { return world->transferred(out, in, 1); }));
  EXPECT_EQ(world->record(b).landed[0], 2u);
  EXPECT_EQ(world->record(a).written[0], 3u);
  EXPECT_TRUE(std::equal(source.begin(), source.end(), memory.begin()));
  EXPECT_EQ(memory[source.size()], std::byte{7});
}

TEST_P(Transfers, PartsOfOneMemoryAreWrittenAtOnce) {
  const auto world = make(2);
  const auto [a, b] = world->connect(0, 1);
  const size_t part = 10001;
  const uint32_t parts = 16;
  Bytes source = RandomBytes(part * parts, 1);
  Bytes target(source.size());
  for (uint32_t i = 0; i < parts; ++i) {
    const RemoteSlice slice = b->expose({target.data() + i * part, part}, i);
    ASSERT_TRUE(a->write(slice, {source.data() + i * part, part}, i));
  }
  ASSERT_TRUE(world->run([&, out = a, in = b] { return world->transferred(out, in, parts); }));
  EXPECT_EQ(source, target);
}

TEST_P(Transfers, LinksOfManyGroupsShareThePath) {
  const auto world = make(3);
  TransferOverLinksOfManyGroups(*world);
}

TEST_P(Transfers, OneEventAtATimeIsEnough) {
  const auto world = make(2);
  const auto [a, b] = world->connect(0, 1);
  std::vector<Bytes> frames;
  for (uint64_t i = 0; i < 200; ++i) frames.push_back(RandomBytes(1 + i % 50, i));
  size_t sent = 0;
  const Instant end = world->now() + std::chrono::seconds(300);
  while (world->record(b).frames.size() < frames.size() && world->now() < end) {
    while (sent < frames.size() && a->send_frame(frames[sent])) ++sent;
    (*world)[0].poll(world->now(), 1);
    (*world)[1].poll(world->now(), 1);
    world->wait(world->now() + std::chrono::microseconds(100));
  }
  EXPECT_EQ(world->record(b).frames, frames);
}

}  // namespace
}  // namespace rocecoll
