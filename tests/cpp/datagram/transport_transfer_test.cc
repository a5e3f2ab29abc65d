// SPDX-License-Identifier: Apache-2.0
// Frames and writes over datagram transports, on good and bad networks.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "datagram/transport_world.h"

namespace rocecoll {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Every node sends frames and one write of each size to every other, both ways at once.
void ExchangeAll(World& world, const std::vector<size_t>& write_sizes, size_t frames,
                 Duration limit = seconds(60)) {
  const auto count = static_cast<uint32_t>(world.nodes.size());
  struct Direction {
    Link* out = nullptr;
    Link* in = nullptr;
    std::vector<Bytes> sources, targets;
    std::vector<Bytes> frames;
    size_t frames_sent = 0;
  };
  std::vector<Direction> directions;
  std::map<std::pair<uint32_t, uint32_t>, Link*> links;
  for (uint32_t a = 0; a < count; ++a) {
    for (uint32_t b = 0; b < count; ++b) {
      if (a != b) links[{a, b}] = world.open(a, b);
    }
  }
  uint64_t seed = 1;
  for (uint32_t a = 0; a < count; ++a) {
    for (uint32_t b = 0; b < count; ++b) {
      if (a == b) continue;
      Direction& d = directions.emplace_back();
      d.out = links[{a, b}];
      d.in = links[{b, a}];
      const size_t max_frame = world[a].transport->limits().max_frame_bytes;
      for (size_t i = 0; i < frames; ++i) {
        d.frames.push_back(RandomBytes(i % 3 == 0 ? max_frame : 1 + i % 200, ++seed));
      }
      for (const size_t size : write_sizes) {
        d.sources.push_back(RandomBytes(size, ++seed));
        d.targets.emplace_back(size);
      }
    }
  }
  for (Direction& d : directions) {
    for (uint32_t i = 0; i < write_sizes.size(); ++i) {
      const RemoteSlice slice = d.in->expose({d.targets[i].data(), d.targets[i].size()}, i);
      ASSERT_TRUE(d.out->write(slice, {d.sources[i].data(), d.sources[i].size()}, 1000 + i));
    }
  }
  const auto record = [&world](Link* link) -> LinkRecord& {
    return world[link->id().local].links[link];
  };
  const bool done = world.run(
      [&] {
        bool all = true;
        for (Direction& d : directions) {
          while (d.frames_sent < frames && d.out->send_frame(d.frames[d.frames_sent])) {
            ++d.frames_sent;
          }
          all = all && record(d.in).frames.size() == frames &&
                World::transferred(record(d.out), record(d.in), write_sizes.size());
        }
        return all;
      },
      limit);
  ASSERT_TRUE(done);
  for (Direction& d : directions) {
    EXPECT_EQ(record(d.in).frames, d.frames);
    EXPECT_EQ(d.sources, d.targets);
    EXPECT_TRUE(record(d.in).down.empty());
  }
}

TEST(DatagramTransfer, FramesAndWritesOfManySizesBothWays) {
  SimWorld world(2);
  ExchangeAll(world, {1, 2, 7, 1000, 1400, 1452, 1453, 4096, 65536, 1000003}, 300);
  EXPECT_EQ(world[0].transport->stats().packets_dropped_invalid, 0u);
}

TEST(DatagramTransfer, SixteenMebibytes) {
  SimWorld world(2, {.bytes_per_second = 2e9});
  ExchangeAll(world, {16u << 20}, 0);
}

TEST(DatagramTransfer, ManyRanksAllToAll) {
  for (const size_t count : {3, 5, 8}) {
    SimWorld world(count, {.bytes_per_second = 1e9});
    ExchangeAll(world, {1, 5000, 100000}, 20);
  }
}

struct Weather {
  const char* name;
  SimWire wire;
};

class DatagramWeather : public testing::TestWithParam<Weather> {};

TEST_P(DatagramWeather, EverythingArrivesBitForBit) {
  for (const uint64_t seed : {1, 2, 3}) {
    SimWorld world(2, GetParam().wire, seed);
    ExchangeAll(world, {1, 1453, 65536, 3u << 20}, 200, seconds(600));
    SimWorld four(4, GetParam().wire, seed);
    ExchangeAll(four, {1, 100000}, 30, seconds(600));
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

TEST(DatagramTransfer, ABlackoutEndsAndNothingIsLost) {
  SimWorld world(2, {.bytes_per_second = 1e9});
  Link* out = world.open(0, 1);
  Link* in = world.open(1, 0);
  const Bytes source = RandomBytes(4 << 20, 1);
  Bytes target(source.size());
  const RemoteSlice slice = in->expose({target.data(), target.size()}, 1);
  ASSERT_TRUE(out->write(slice, {const_cast<std::byte*>(source.data()), source.size()}, 2));
  world.run_for(milliseconds(1));
  world.network.set_partition(1, true);
  world.run_for(seconds(2));
  EXPECT_TRUE(world[1].links[in].landed.empty());
  world.network.set_partition(1, false);
  ASSERT_TRUE(world.run(
      [&] { return World::transferred(world[0].links[out], world[1].links[in], 1); }, seconds(2)));
  EXPECT_EQ(source, target);
}

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
  EXPECT_GT(world[0].transport->next_deadline(), world.now());  // tries again, but not at once
  EXPECT_LE(world[0].transport->next_deadline(), world.now() + milliseconds(1));
  world.ports[0]->set_send_room(3);
  ASSERT_TRUE(
      world.run([&] { return World::transferred(world[0].links[out], world[1].links[in], 1); }));
  EXPECT_EQ(source, target);
  EXPECT_EQ(world[0].transport->stats().packets_retransmitted, 0u);
}

TEST(DatagramTransfer, ManyLinksShareAPath) {
  SimWorld world(2, {.bytes_per_second = 1e9});
  const uint64_t groups = 40;
  std::vector<Link*> outs, ins;
  std::vector<Bytes> sources, targets;
  for (uint64_t group = 1; group <= groups; ++group) {
    outs.push_back(world.open(0, 1, group));
    ins.push_back(world.open(1, 0, group));
    sources.push_back(RandomBytes(100000 + group, group));
    targets.emplace_back(sources.back().size());
  }
  for (size_t i = 0; i < groups; ++i) {
    const RemoteSlice slice = ins[i]->expose({targets[i].data(), targets[i].size()}, 1);
    ASSERT_TRUE(outs[i]->write(slice, {sources[i].data(), sources[i].size()}, 2));
  }
  ASSERT_TRUE(world.run([&] {
    bool all = true;
    for (size_t i = 0; i < groups; ++i) {
      all = all && World::transferred(world[0].links[outs[i]], world[1].links[ins[i]], 1);
    }
    return all;
  }));
  EXPECT_EQ(sources, targets);
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
      all = all && World::transferred(world[i + 1].links[outs[i]], world[0].links[ins[i]], 1);
    }
    return all;
  }));
  EXPECT_EQ(sources, targets);
}

TEST(DatagramTransfer, AFewEventsAtATimeAreEnough) {
  SimWorld world(2);
  Link* out = world.open(0, 1);
  Link* in = world.open(1, 0);
  std::vector<Bytes> frames;
  for (uint64_t i = 0; i < 200; ++i) {
    frames.push_back(RandomBytes(1 + i % 50, i));
    ASSERT_TRUE(out->send_frame(frames.back()));
  }
  for (int i = 0; i < 5000 && world[1].links[in].frames.size() < frames.size(); ++i) {
    world[0].poll(world.now(), 1);
    world[1].poll(world.now(), 1);
    world.wait(world.now());
  }
  EXPECT_EQ(world[1].links[in].frames, frames);
}

TEST(DatagramTransfer, OneSeedOneCourse) {
  const auto course = [](uint64_t seed) {
    SimWorld world(3, {.bytes_per_second = 1e9, .loss = 0.1, .reorder = 0.1}, seed);
    ExchangeAll(world, {1, 100000}, 30);
    return std::pair(world.now(), world.network.stats().sent);
  };
  EXPECT_EQ(course(5), course(5));
  EXPECT_NE(course(5), course(6));
}

class UdpTransfer : public testing::TestWithParam<std::tuple<const char*, bool>> {};

TEST_P(UdpTransfer, FramesAndWritesOverRealSockets) {
  const auto [host, offload] = GetParam();
  UdpWorld world(2, {.host = host, .segmentation_offload = offload});
  ExchangeAll(world, {1, 8, 1453, 65536, 1000003, 16u << 20}, 300, seconds(30));
}

INSTANTIATE_TEST_SUITE_P(All, UdpTransfer,
                         testing::Combine(testing::Values("127.0.0.1", "::1"), testing::Bool()));

TEST(UdpTransfer, FiveRanksOverRealSockets) {
  UdpWorld world(5, {});
  ExchangeAll(world, {1, 5000, 1u << 20}, 50, seconds(30));
}

}  // namespace
}  // namespace rocecoll
