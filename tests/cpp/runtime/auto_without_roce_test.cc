// SPDX-License-Identifier: Apache-2.0
// auto costs pairs without RoCE nothing: over real sockets, with a clock that the test has, two
// processes that know of each other that they have none exchange the very packets of udp.
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "runtime/open_transport.h"
#include "transport/fast_paths/shm/shm_options.h"

namespace rocecoll {
namespace {

constexpr LinkId kLink{{7, 9}, 0, 1};
constexpr Duration kStep = std::chrono::microseconds(200);

RuntimeOptions WithoutRoce(const std::string& transport) {
  RuntimeOptions options;
  options.transport = transport;
  options.plugin = FAKE_PLUGINS "fake_good.so";  // which finds no device
  return options;
}

std::unique_ptr<Transport> Open(const RuntimeOptions& options) {
  auto opened = OpenTransport(options);
  EXPECT_TRUE(opened.ok()) << opened.status().message();
  while (TakeLogEntry(Duration{0})) {
  }
  return opened.take();
}

// Both ends of one link, stepped in turn.
struct Pair {
  explicit Pair(const std::string& transport)
      : ends{Open(WithoutRoce(transport)), Open(WithoutRoce(transport))} {
    for (size_t i = 0; i < 2; ++i) {
      const Address peer = ends[1 - i]->address().with_roce(Roce::kNone);
      links[i] = ends[i]
                     ->open(i == 0 ? kLink : kLink.mirrored(), peer, std::chrono::seconds(30), now)
                     .value();
    }
  }

  std::vector<Event::Kind> step(size_t end) {
    std::array<Event, 64> events;
    now += kStep;
    const size_t count = ends[end]->poll(now, events);
    std::vector<Event::Kind> kinds;
    for (size_t i = 0; i < count; ++i) kinds.push_back(events[i].kind);
    return kinds;
  }

  // Ahead of the machine's own, which a port of real sockets reads too: the later one counts.
  Instant now{std::chrono::hours(24 * 365 * 100)};
  std::array<std::unique_ptr<Transport>, 2> ends;
  std::array<Link*, 2> links{};
};

// Every count of both ends, after frames and a write both ways.
std::vector<uint64_t> CountsOf(const std::string& transport) {
  Pair pair(transport);
  std::vector<std::byte> source(200'000, std::byte{3});
  std::vector<std::byte> target(source.size());
  const auto run = [&](int steps) {
    for (int i = 0; i < steps; ++i) {
      for (size_t end = 0; end < 2; ++end) pair.step(end);
    }
  };
  run(20);
  for (int round = 0; round < 10; ++round) {
    EXPECT_TRUE(pair.links[round % 2]->send_frame(std::span(source).first(3000)));
    run(3);
  }
  const RemoteSlice slice = pair.links[1]->expose({target.data(), target.size()}, 1);
  EXPECT_TRUE(pair.links[0]->write(slice, {source.data(), source.size()}, 2));
  run(500);
  EXPECT_EQ(source, target);
  std::vector<uint64_t> counts;
  for (const auto& end : pair.ends) {
    const TransportStats stats = end->stats();
    for (const TransportStat& stat : kTransportStats) counts.push_back(stats.*stat.value);
  }
  return counts;
}

TEST(AutoWithoutRoce, SendsThePacketsOfUdp) {
  const std::vector<uint64_t> udp = CountsOf("udp");
  EXPECT_GT(udp[0], 200'000u);
  EXPECT_EQ(CountsOf("auto"), udp);
}

// The limits of a group whose ranks have RoCE or not, as one without a device has them.
TransportLimits LimitsOf(const std::string& transport, bool shm, const std::vector<Roce>& group) {
  RuntimeOptions options = WithoutRoce(transport);
  options.shm = shm;
  const auto opened = Open(options);
  std::vector<Address> addresses;
  for (const Roce roce : group) addresses.push_back(opened->address().with_roce(roce));
  return opened->limits_towards(addresses);
}

TEST(AutoWithoutRoce, HasTheLimitsOfUdpUnlessSomePairOfTheGroupHasRoce) {
  for (const bool shm : {false, true}) {
    const TransportLimits udp = LimitsOf("udp", shm, {Roce::kNone, Roce::kNone});
    EXPECT_GT(udp.preferred_eager_bytes, RcOptions::kMaxFrameBytes);
    for (const auto& group : {std::vector{Roce::kNone, Roce::kNone},
                              std::vector{Roce::kNone, Roce::kUsable, Roce::kNone}}) {
      const TransportLimits limits = LimitsOf("auto", shm, group);
      EXPECT_EQ(limits.preferred_eager_bytes, udp.preferred_eager_bytes);
      EXPECT_EQ(limits.max_frame_bytes, udp.max_frame_bytes);
    }
  }
  // All addresses here are of one host, whose ranks would share memory.
  const TransportLimits mixed =
      LimitsOf("auto", false, {Roce::kNone, Roce::kUsable, Roce::kUsable});
  EXPECT_EQ(mixed.preferred_eager_bytes, RcOptions::kMaxFrameBytes);
}

// More push each other out of the caches.
TEST(LimitsOfAHost, FewMessagesAreInFlightWhereMemoryIsShared) {
  const std::vector<Roce> pair{Roce::kNone, Roce::kNone};
  for (const char* transport : {"udp", "auto"}) {
    EXPECT_EQ(LimitsOf(transport, true, pair).messages_in_flight, ShmOptions::kMessagesInFlight);
    EXPECT_EQ(LimitsOf(transport, false, pair).messages_in_flight, UINT32_MAX);
  }
}

}  // namespace
}  // namespace rocecoll
