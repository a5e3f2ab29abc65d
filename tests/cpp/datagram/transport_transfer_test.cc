// SPDX-License-Identifier: Apache-2.0
// Frames and writes over datagram transports, on good and bad networks.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "conformance/exchange.h"
#include "datagram/transport_world.h"

namespace rocecoll {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(DatagramTransfer, AGoodNetworkDropsNothing) {
  SimWorld world(2);
  ExchangeAll(world, {.write_sizes = {1, 1453, 65536, 1000003}, .frames = 300});
  EXPECT_EQ(world[0].transport->stats().packets_dropped_invalid, 0u);
  EXPECT_EQ(world[0].transport->stats().packets_retransmitted, 0u);
}

struct Weather {
  const char* name;
  SimWire wire;
};

class DatagramWeather : public testing::TestWithParam<Weather> {};

TEST_P(DatagramWeather, EverythingArrivesBitForBit) {
  for (const uint64_t seed : {1, 2, 3}) {
    SimWorld world(2, GetParam().wire, seed);
    ExchangeAll(world,
                {.write_sizes = {1, 1453, 65536, 3u << 20}, .frames = 200, .limit = seconds(600)});
    SimWorld four(4, GetParam().wire, seed);
    ExchangeAll(four, {.write_sizes = {1, 100000}, .frames = 30, .limit = seconds(600)});
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, DatagramWeather,
    testing::Values(Weather{"loss5", {.bytes_per_second = 1e9, .loss = 0.05}},
                    Weather{"loss20", {.bytes_per_second = 1e9, .loss = 0.2}},
                    Weather{"duplicates", {.bytes_per_second = 1e9, .duplicate = 0.2}},
                    Weather{"reordering", {.bytes_per_second = 1e9, .reorder = 0.3}},
                    Weather{"corruption", {.bytes_per_second = 1e9, .corrupt = 0.05}},
                    Weather{"all",
                            {.bytes_per_second = 1e9,
                             .loss = 0.05,
                             .duplicate = 0.05,
                             .reorder = 0.1,
                             .corrupt = 0.02}}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(DatagramTransfer, AFullPortDelaysButLosesNothing) {
  SimWorld world(2);
  Link* out = world.open(0, 1);
  Link* in = world.open(1, 0);
  world.run_for(milliseconds(5));
  const Bytes source = RandomBytes(200000, 1);
  Bytes target(source.size());
  const RemoteSlice slice = in->expose({target.data(), target.size()}, 1);
  ASSERT_TRUE(out->write(slice, {const_cast<std::byte*>(source.data()), source.size()}, 2));
  world.ports[0]->set_send_room(0);
  for (int i = 0; i < 5; ++i) world[0].poll(world.now());
  EXPECT_GT(world[0].transport->next_deadline(), world.now());  // it tries again, but not at once
  EXPECT_LE(world[0].transport->next_deadline(), world.now() + milliseconds(1));
  world.ports[0]->set_send_room(3);
  ASSERT_TRUE(world.run([&] { return world.transferred(out, in, 1); }));
  EXPECT_EQ(source, target);
  EXPECT_EQ(world[0].transport->stats().packets_retransmitted, 0u);
}

TEST(DatagramTransfer, IncastFitsTheReceiveBuffer) {
  const SimPortOptions port{.receive_buffer_bytes = 256 * 1024};
  SimWorld world(8, {.bytes_per_second = 1e9}, 1, port);
  std::vector<Bytes> sources, targets;
  std::vector<Link*> outs, ins;
  for (uint32_t i = 1; i < 8; ++i) {
    outs.push_back(world.open(i, 0));
    ins.push_back(world.open(0, i));
    sources.push_back(RandomBytes(1 << 20, i));
    targets.emplace_back(1 << 20);
  }
  for (size_t i = 0; i < ins.size(); ++i) {
    const RemoteSlice slice = ins[i]->expose({targets[i].data(), targets[i].size()}, 1);
    ASSERT_TRUE(outs[i]->write(slice, {sources[i].data(), sources[i].size()}, 2));
  }
  ASSERT_TRUE(world.run([&] {
    bool all = true;
    for (size_t i = 0; i < ins.size(); ++i) {
      all = all && world.transferred(outs[i], ins[i], 1);
    }
    return all;
  }));
  EXPECT_EQ(sources, targets);
}

// A process that gets a core only every 3 ms takes a receive window each time. The time that
// packets wait in its socket is told apart from the time that they wait in the network.
TEST(DatagramTransfer, ABusyReceiverIsNoQueue) {
  SimPortOptions port;
  port.max_datagram_bytes = 8192;
  SimWorld world(2, {.bytes_per_second = 1.25e9}, 1, port);
  const auto [from, into] = world.connect(0, 1);
  Bytes source = RandomBytes(32 << 20, 1);
  Bytes target(source.size());
  const auto start = [&, from = from, into = into] {
    const RemoteSlice slice = into->expose({target.data(), target.size()}, 1);
    return from->write(slice, {source.data(), source.size()}, 2);
  };
  ASSERT_TRUE(start());
  ASSERT_TRUE(
      world.run([&, from = from, into = into] { return world.transferred(from, into, 1); }));
  ASSERT_TRUE(start());
  const Instant begin = world.now();
  const Duration interval = milliseconds(3);
  while (!world.transferred(from, into, 2)) {
    world.run([] { return false; }, interval, {1});
    world.nodes[1].poll(world.now());
    ASSERT_LT(world.now() - begin, seconds(10));
  }
  const auto windows = static_cast<int64_t>(source.size() / port.receive_buffer_bytes);
  EXPECT_LT(world.now() - begin, windows * interval * 2);
}

TEST(DatagramTransfer, OneSeedOneCourse) {
  const auto course = [](uint64_t seed) {
    SimWorld world(3, {.bytes_per_second = 1e9, .loss = 0.1, .reorder = 0.1}, seed);
    ExchangeAll(world, {.write_sizes = {1, 100000}, .frames = 30});
    return std::pair(world.now(), world.network.stats().sent);
  };
  EXPECT_EQ(course(5), course(5));
  EXPECT_NE(course(5), course(6));
}

}  // namespace
}  // namespace rocecoll
