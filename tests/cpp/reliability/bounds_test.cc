// SPDX-License-Identifier: Apache-2.0
// Every queue of a connection has a bound, and reaching it does not end the connection.
#include <gtest/gtest.h>

#include "reliability/connection_pair.h"
#include "transport/datagram/reliability/frame_wire.h"

namespace rocecoll {
namespace {

TEST(Bounds, AFullFrameQueueRefusesAndRecovers) {
  ConnectionPair pair(1);
  ASSERT_TRUE(pair.establish());
  uint64_t accepted = 0;
  while (pair.at(0).send_frame(TestBytes(1000, accepted))) ++accepted;
  EXPECT_GT(accepted, 200u);
  EXPECT_LE(accepted, 262u);
  ASSERT_TRUE(pair.run_until([&] { return pair.end(1).frames.size() == accepted; }));
  pair.run_for(milliseconds(20));
  EXPECT_TRUE(pair.at(0).send_frame(TestBytes(1000, 1)));
}

TEST(Bounds, AFullListOfWritesRefusesAndRecovers) {
  ConnectionOptions options;
  options.max_pending_writes = 4;
  ConnectionPair pair(1, {}, options);
  ASSERT_TRUE(pair.establish());
  auto source = TestBytes(100, 1);
  std::vector<std::byte> target(source.size());
  for (uint32_t i = 0; i < 4; ++i) {
    ASSERT_TRUE(pair.at(0).write(pair.at(1).expose(SliceOf(target), i), SliceOf(source), i));
  }
  const auto fifth = pair.at(1).expose(SliceOf(target), 4);
  EXPECT_FALSE(pair.at(0).write(fifth, SliceOf(source), 4));
  ASSERT_TRUE(pair.run_until([&] { return pair.end(0).written.size() == 4; }));
  EXPECT_TRUE(pair.at(0).write(fifth, SliceOf(source), 4));
  ASSERT_TRUE(pair.run_until([&] { return pair.end(0).written.size() == 5; }));
}

TEST(Bounds, NeverMoreInFlightThanTheReceiverAdvertises) {
  for (uint64_t window : {2000u, 10000u, 50000u, 400000u}) {
    ConnectionPair pair(1);
    pair.at(1).set_receive_window(window);
    auto source = TestBytes(4000000, 1);
    std::vector<std::byte> target(source.size());
    ASSERT_TRUE(pair.at(0).write(pair.at(1).expose(SliceOf(target), 1), SliceOf(source), 1));
    uint64_t most = 0;
    ASSERT_TRUE(pair.run_until([&] {
      most = std::max(most, pair.end(0).path.congestion->bytes_in_flight());
      return pair.end(0).written.size() == 1;
    }));
    EXPECT_LE(most, window);
    EXPECT_GE(most, std::min<uint64_t>(window, 400000) - 1452);
    EXPECT_TRUE(source == target);
  }
}

TEST(Bounds, AWindowOfNothingStillLetsOnePacketAtATimeThrough) {
  ConnectionPair pair(1);
  pair.at(1).set_receive_window(0);
  auto source = TestBytes(50000, 1);
  std::vector<std::byte> target(source.size());
  ASSERT_TRUE(pair.at(0).write(pair.at(1).expose(SliceOf(target), 1), SliceOf(source), 1));
  ASSERT_TRUE(pair.run_until([&] {
    // Pings are sent in addition, because no window holds them back.
    EXPECT_LE(pair.end(0).path.congestion->bytes_in_flight(), 1452u + 2 * 41);
    return pair.end(0).written.size() == 1;
  }));
}

TEST(Bounds, AConnectionMovesThoughOthersUseUpThePath) {
  ConnectionPair pair(1);
  ASSERT_TRUE(pair.establish());
  CongestionController& congestion = *pair.end(0).path.congestion;
  const uint64_t others = congestion.window() * 2;
  congestion.on_sent(pair.now, others);
  auto source = TestBytes(50000, 1);
  std::vector<std::byte> target(source.size());
  ASSERT_TRUE(pair.at(0).write(pair.at(1).expose(SliceOf(target), 1), SliceOf(source), 1));
  ASSERT_TRUE(pair.run_until([&] { return pair.end(0).written.size() == 1; }, milliseconds(100)));
  congestion.on_discarded(others);
}

TEST(Bounds, AFrameOfTheGreatestSizeFitsWhateverElseIsDue) {
  for (size_t datagram : {512u, 1452u, 8192u, 65507u}) {
    ConnectionOptions options;
    options.max_datagram_bytes = datagram;
    ConnectionPair pair(5, ChannelFaults::Everything(0.3), options);
    const size_t size = Connection::kMaxFrameBytes;
    for (uint64_t i = 0; i < 3; ++i) {
      ASSERT_TRUE(pair.at(0).send_frame(TestBytes(size, i)));
      ASSERT_TRUE(pair.at(1).send_frame(TestBytes(size, i)));
    }
    ASSERT_TRUE(pair.run_until(
        [&] { return pair.end(0).frames.size() == 3 && pair.end(1).frames.size() == 3; }));
    EXPECT_THROW(static_cast<void>(pair.at(0).send_frame(TestBytes(size + 1, 0))), CheckFailure);
  }
}

// Datagrams are limited to a part of the window so that several can be in flight, and few bytes are
// lost with one.
TEST(Bounds, DatagramsAreAPartOfThePeersReceiveWindow) {
  for (const auto& [window, most] : {std::pair{2'000'000u, 65'000u},
                                     {400'000u, 50'000u},
                                     {100'000u, 12'500u},
                                     {20'000u, 8192u},
                                     {1000u, 8192u}}) {
    ConnectionOptions options;
    options.max_datagram_bytes = 65'000;
    ConnectionPair pair(1, {}, options);
    pair.at(1).set_receive_window(window);
    ASSERT_TRUE(pair.establish());
    size_t largest = 0;
    pair.on_sent = [&](int from, std::span<const std::byte> bytes) {
      if (from == 0) largest = std::max(largest, bytes.size());
    };
    auto source = TestBytes(300'000, 1);
    std::vector<std::byte> target(source.size());
    ASSERT_TRUE(pair.at(0).write(pair.at(1).expose(SliceOf(target), 1), SliceOf(source), 1));
    ASSERT_TRUE(pair.run_until([&] { return pair.end(0).written.size() == 1; }));
    EXPECT_EQ(source, target);
    EXPECT_EQ(largest, most) << window;
  }
}

TEST(Unexpose, TakesMemoryBackThatNothingWasWrittenTo) {
  ConnectionPair pair(1);
  ASSERT_TRUE(pair.establish());
  auto source = TestBytes(5000, 1);
  std::vector<std::byte> target(source.size());
  const auto remote = pair.at(1).expose(SliceOf(target), 1);
  pair.at(1).unexpose(remote);
  EXPECT_THROW(pair.at(1).unexpose(remote), CheckFailure);
  // A write that comes too late is acknowledged and then dropped.
  ASSERT_TRUE(pair.at(0).write(remote, SliceOf(source), 1));
  ASSERT_TRUE(pair.run_until([&] { return pair.end(0).written.size() == 1; }));
  EXPECT_TRUE(pair.end(1).landed.empty());
  EXPECT_EQ(target, std::vector<std::byte>(5000));
}

// An acknowledgement costs both ends about a microsecond.
TEST(Bounds, HotPathSendsAboutOneAcknowledgementPerFortyEightKibibytes) {
  ConnectionOptions options;
  options.max_datagram_bytes = 8192;
  ConnectionPair pair(1, {}, options);
  ASSERT_TRUE(pair.establish());
  auto source = TestBytes(20000000, 1);
  std::vector<std::byte> target(source.size());
  ASSERT_TRUE(pair.at(0).write(pair.at(1).expose(SliceOf(target), 1), SliceOf(source), 1));
  const uint64_t before = pair.end(1).sent;
  ASSERT_TRUE(pair.run_until([&] { return pair.end(0).written.size() == 1; }));
  EXPECT_LT(pair.end(1).sent - before, source.size() / (32 * 1024));
}

// A window that was only ever filled by small packets stays small, and they hardly ever use it up.
TEST(Bounds, SmallFramesInTurnTakeHardlyMoreThanAPacketEach) {
  for (const size_t datagram_bytes : {1452, 4096, 8952}) {
    ConnectionOptions options;
    options.max_datagram_bytes = datagram_bytes;
    ConnectionPair pair(1, {}, options);
    ASSERT_TRUE(pair.establish());
    const auto exchange = [&](size_t rounds) {
      for (size_t round = 0; round < rounds; ++round) {
        for (int from : {0, 1}) {
          const size_t next = pair.end(1 - from).frames.size() + 1;
          ASSERT_TRUE(pair.at(from).send_frame(TestBytes(60, round)));
          ASSERT_TRUE(pair.run_until([&] { return pair.end(1 - from).frames.size() == next; }));
        }
      }
    };
    exchange(2000);
    constexpr size_t kRounds = 1000;
    const uint64_t before = pair.end(0).sent + pair.end(1).sent;
    exchange(kRounds);
    EXPECT_LT(pair.end(0).sent + pair.end(1).sent - before, 2 * kRounds + kRounds / 4)
        << datagram_bytes << " bytes a datagram, window " << pair.end(0).path.congestion->window();
  }
}

}  // namespace
}  // namespace rocecoll
