// SPDX-License-Identifier: Apache-2.0
#include "transport/sim/sim_transport.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "transport/sim/sim_fabric.h"

namespace rocecoll {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

LinkId IdOf(Rank local, Rank remote) { return LinkId{7, 9, local, remote}; }

std::span<const std::byte> BytesOf(const std::string& text) {
  return std::as_bytes(std::span(text));
}

struct Seen {
  Instant at;
  Event::Kind kind;
  Link* link;
  uint32_t token;
  std::string frame;
};

class SimTransportTest : public testing::Test {
 protected:
  explicit SimTransportTest(SimFabricOptions options = Options()) : fabric_(options) {}

  static SimFabricOptions Options() {
    SimFabricOptions options;
    options.endpoints = 4;
    options.latency = microseconds(5);
    options.ns_per_byte = 1.0;
    options.max_queued_frames = 4;
    options.max_queued_writes = 2;
    return options;
  }
  Link* Open(uint32_t from, uint32_t to) {
    auto link = fabric_.transport(from).open(IdOf(from, to), fabric_.transport(to).address(),
                                             seconds(30), fabric_.now());
    EXPECT_TRUE(link.ok()) << link.status().message();
    return link.value();
  }
  // Polls every endpoint until nothing happens any more, and stores what each of them saw.
  void Run(Duration limit = milliseconds(20)) {
    RunUntil(
        fabric_,
        [this](uint32_t endpoint, Instant now) {
          Event events[2];
          size_t count;
          while ((count = fabric_.transport(endpoint).poll(now, events)) > 0) {
            for (size_t i = 0; i < count; ++i) {
              const Event& e = events[i];
              seen_[endpoint].push_back(
                  {now, e.kind, e.link, e.token,
                   std::string(reinterpret_cast<const char*>(e.frame.data()), e.frame.size())});
            }
          }
          return kNever;
        },
        [] { return false; }, limit);
  }

  SimFabric fabric_;
  std::vector<Seen> seen_[4];
};

TEST_F(SimTransportTest, FramesArriveInOrderAfterLatencyAndTransferTime) {
  Link* a = Open(0, 1);
  Open(1, 0);
  ASSERT_TRUE(a->send_frame(BytesOf(std::string(100, 'x'))));
  ASSERT_TRUE(a->send_frame(BytesOf(std::string(50, 'y'))));
  Run();
  ASSERT_EQ(seen_[1].size(), 2u);
  // There are 5 us for the handshake and 5 us of latency, then the bytes of one transfer after
  // another.
  EXPECT_EQ(seen_[1][0].at, Instant(microseconds(10) + Duration(100)));
  EXPECT_EQ(seen_[1][1].at, Instant(microseconds(10) + Duration(150)));
  EXPECT_EQ(seen_[1][0].frame, std::string(100, 'x'));
  EXPECT_EQ(seen_[1][1].frame, std::string(50, 'y'));
}

TEST_F(SimTransportTest, TwoSendersShareOneEjectionPort) {
  Link* a = Open(0, 2);
  Link* b = Open(1, 2);
  Open(2, 0);
  Open(2, 1);
  ASSERT_TRUE(a->send_frame(BytesOf(std::string(1000, 'a'))));
  ASSERT_TRUE(b->send_frame(BytesOf(std::string(1000, 'b'))));
  Run();
  ASSERT_EQ(seen_[2].size(), 2u);
  EXPECT_EQ(seen_[2][0].at, Instant(microseconds(11)));
  EXPECT_EQ(seen_[2][1].at, Instant(microseconds(12)));
}

TEST_F(SimTransportTest, WriteCopiesWhenItsLastByteArrives) {
  Link* a = Open(0, 1);
  Link* b = Open(1, 0);
  std::string source(100, '1');
  std::string target(100, '-');
  const LocalSlice into{reinterpret_cast<std::byte*>(target.data()), target.size(), 0};
  const RemoteSlice slice = b->expose(into, 42);
  ASSERT_TRUE(a->write(slice, {reinterpret_cast<std::byte*>(source.data()), source.size(), 0}, 17));
  fabric_.queue().run_until(Instant(microseconds(10)));
  EXPECT_EQ(target, std::string(100, '-'));
  std::fill(source.begin(), source.end(), '2');  // the sender breaks its promise
  Run();
  EXPECT_EQ(target, std::string(100, '2'));
  ASSERT_EQ(seen_[1].size(), 1u);
  EXPECT_EQ(seen_[1][0].kind, Event::Kind::kLanded);
  EXPECT_EQ(seen_[1][0].token, 42u);
  ASSERT_EQ(seen_[0].size(), 1u);
  EXPECT_EQ(seen_[0][0].kind, Event::Kind::kWritten);
  EXPECT_EQ(seen_[0][0].token, 17u);
  EXPECT_EQ(seen_[0][0].at - seen_[1][0].at, microseconds(5));
}

TEST_F(SimTransportTest, AbortReachesAPeerThatOpensLater) {
  Link* a = Open(0, 1);
  a->close(Status(StatusCode::kMismatch, "rank 0 is unhappy"));
  Run();
  Link* b = Open(1, 0);
  Run();
  ASSERT_EQ(seen_[1].size(), 2u);
  EXPECT_EQ(seen_[1][0].kind, Event::Kind::kIncoming);
  EXPECT_EQ(seen_[1][1].kind, Event::Kind::kDown);
  EXPECT_EQ(b->status().code(), StatusCode::kMismatch);
  EXPECT_EQ(b->status().reporter(), 0u);
  EXPECT_EQ(b->status().message(), "rank 0 is unhappy");
}

TEST_F(SimTransportTest, CloseStopsReadingAndWritingLentMemory) {
  Link* a = Open(0, 1);
  Link* b = Open(1, 0);
  std::string source(100, '1');
  std::string target(100, '-');
  const RemoteSlice slice =
      b->expose({reinterpret_cast<std::byte*>(target.data()), target.size(), 0}, 1);
  ASSERT_TRUE(a->write(slice, {reinterpret_cast<std::byte*>(source.data()), source.size(), 0}, 2));
  fabric_.queue().run_until(Instant(microseconds(7)));
  a->close(Status(StatusCode::kAborted, "stop"));
  Run();
  EXPECT_EQ(target, std::string(100, '-'));
  ASSERT_EQ(seen_[1].size(), 1u);
  EXPECT_EQ(seen_[1][0].kind, Event::Kind::kDown);
}

TEST_F(SimTransportTest, PeersOfADeadEndpointLearnAfterTheDetectionDelay) {
  Link* a = Open(0, 1);
  Open(1, 0);
  Run();
  const Instant death = fabric_.now();
  fabric_.kill(1);
  ASSERT_TRUE(a->send_frame(BytesOf("anyone?")));
  Link* late = Open(2, 1);
  Run();
  ASSERT_EQ(seen_[0].size(), 1u);
  EXPECT_EQ(seen_[0][0].kind, Event::Kind::kDown);
  EXPECT_EQ(seen_[0][0].at, death + milliseconds(1));
  EXPECT_EQ(a->status().code(), StatusCode::kPeerLost);
  EXPECT_EQ(late->status().code(), StatusCode::kPeerLost);
  EXPECT_TRUE(seen_[1].empty());
}

TEST(SimFabric, SameSeedSameTraceAndOrderKeptUnderJitter) {
  auto trace = [](uint64_t seed) {
    SimFabricOptions options;
    options.max_jitter = microseconds(50);
    options.seed = seed;
    SimFabric fabric(options);
    Link* a = fabric.transport(0)
                  .open(IdOf(0, 1), fabric.transport(1).address(), seconds(1), fabric.now())
                  .value();
    EXPECT_TRUE(fabric.transport(1)
                    .open(IdOf(1, 0), fabric.transport(0).address(), seconds(1), fabric.now())
                    .ok());
    for (uint32_t i = 0; i < 64; ++i) {
      std::byte frame[sizeof(i)];
      StoreLe(frame, i);
      EXPECT_TRUE(a->send_frame(frame));
    }
    std::vector<int64_t> arrivals;
    RunUntil(
        fabric,
        [&](uint32_t endpoint, Instant now) {
          Event event;
          while (fabric.transport(endpoint).poll(now, {&event, 1}) > 0) {
            EXPECT_EQ(LoadLe<uint32_t>(event.frame.data()), arrivals.size());
            arrivals.push_back(now.time_since_epoch().count());
          }
          return kNever;
        },
        [&] { return arrivals.size() == 64; });
    EXPECT_EQ(arrivals.size(), 64u);
    return arrivals;
  };
  EXPECT_EQ(trace(1), trace(1));
  EXPECT_NE(trace(1), trace(2));
}

TEST(SimFabric, ThousandsOfEndpointsInARing) {
  SimFabricOptions options;
  options.endpoints = 4096;
  SimFabric fabric(options);
  std::vector<Link*> next(options.endpoints);
  for (uint32_t i = 0; i < options.endpoints; ++i) {
    const uint32_t to = (i + 1) % options.endpoints;
    const uint32_t from = (i + options.endpoints - 1) % options.endpoints;
    SimTransport& transport = fabric.transport(i);
    next[i] =
        transport.open(IdOf(i, to), fabric.transport(to).address(), seconds(1), Instant{}).value();
    ASSERT_TRUE(
        transport.open(IdOf(i, from), fabric.transport(from).address(), seconds(1), Instant{})
            .ok());
  }
  ASSERT_TRUE(next[0]->send_frame(BytesOf("token")));
  uint32_t hops = 0;
  const bool arrived = RunUntil(
      fabric,
      [&](uint32_t endpoint, Instant now) {
        Event event;
        while (fabric.transport(endpoint).poll(now, {&event, 1}) > 0) {
          ++hops;
          if (endpoint != 0) {
            EXPECT_TRUE(next[endpoint]->send_frame(event.frame));
          }
        }
        return kNever;
      },
      [&] { return hops == options.endpoints; });
  EXPECT_TRUE(arrived);
}

TEST(RunUntil, WakesAnEndpointAtTheDeadlineItNamed) {
  SimFabric fabric(SimFabricOptions{});
  std::vector<Instant> steps;
  const Instant deadline = Instant(milliseconds(3));
  RunUntil(
      fabric,
      [&](uint32_t endpoint, Instant now) {
        if (endpoint == 1) return kNever;
        steps.push_back(now);
        return now < deadline ? deadline : kNever;
      },
      [] { return false; });
  EXPECT_EQ(steps, (std::vector<Instant>{Instant{}, deadline}));
}

}  // namespace
}  // namespace rocecoll
