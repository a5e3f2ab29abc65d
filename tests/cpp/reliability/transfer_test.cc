// SPDX-License-Identifier: Apache-2.0
// Frames and writes through faulty networks, end to end.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "base/run_choice.h"
#include "reliability/connection_pair.h"
#include "transport/datagram/reliability/frame_wire.h"

namespace rocecoll {
namespace {

// Frame i of `from`: the seed determines its length and content.
std::vector<std::byte> FrameOf(uint64_t seed, int from, uint64_t i, size_t max_bytes) {
  Random random(seed * 1000003 + i * 2 + static_cast<uint64_t>(from));
  const size_t size = random.chance(0.7) ? 1 + random.below(100) : 1 + random.below(max_bytes);
  return TestBytes(size, random.next());
}

void ExpectFramesInOrder(uint64_t seed, const ChannelFaults& faults, uint64_t count) {
  ConnectionPair pair(seed, faults);
  std::array<uint64_t, 2> sent{};
  const size_t max_bytes = Connection::kMaxFrameBytes;
  const auto all_there = [&] {
    for (int from = 0; from < 2; ++from) {
      auto& next = sent[static_cast<size_t>(from)];
      while (next < count && pair.at(from).send_frame(FrameOf(seed, from, next, max_bytes))) {
        ++next;
      }
    }
    return pair.end(0).frames.size() == count && pair.end(1).frames.size() == count;
  };
  ASSERT_TRUE(pair.run_until(all_there)) << seed;
  pair.run_for(seconds(1));
  for (int to = 0; to < 2; ++to) {
    ASSERT_EQ(pair.end(to).frames.size(), count) << "a frame came twice, seed " << seed;
    for (uint64_t i = 0; i < count; ++i) {
      ASSERT_EQ(pair.end(to).frames[i], FrameOf(seed, 1 - to, i, max_bytes)) << seed << " " << i;
    }
  }
  EXPECT_EQ(pair.at(0).packets_invalid() + pair.at(1).packets_invalid(), 0u);
}

TEST(Frames, ArriveInOrderOnceWithoutLoss) { ExpectFramesInOrder(1, {}, 2000); }

TEST(Frames, ArriveInOrderOnceUnderLoss) {
  for (const uint64_t seed : ChooseForRun(8, 1, 31)) {
    ExpectFramesInOrder(seed, ChannelFaults::Lossy(0.3), 200);
  }
}

TEST(Frames, ArriveInOrderOnceUnderEveryFault) {
  for (const uint64_t seed : ChooseForRun(8, 1, 31)) {
    ExpectFramesInOrder(seed, ChannelFaults::Everything(0.3), 200);
  }
}

struct Transfer {
  std::vector<std::byte> source;
  std::vector<std::byte> target;
  RemoteSlice remote;
};

// Makes `count` writes in each direction at once, of sizes from one byte to `max_bytes`.
void ExpectWritesBitExact(uint64_t seed, const ChannelFaults& faults, size_t count,
                          size_t max_bytes, ConnectionOptions options = {}) {
  ConnectionPair pair(seed, faults, options);
  Random random(seed);
  std::array<std::vector<Transfer>, 2> transfers;
  for (int to = 0; to < 2; ++to) {
    auto& list = transfers[static_cast<size_t>(to)];
    list.resize(count);
    for (size_t i = 0; i < count; ++i) {
      const size_t size = i == 0 ? 1 : 1 + random.below(max_bytes);
      list[i].source = TestBytes(size, random.next());
      list[i].target.assign(size, std::byte{0});
      list[i].remote = pair.at(to).expose(SliceOf(list[i].target), static_cast<uint32_t>(i));
      ASSERT_TRUE(
          pair.at(1 - to).write(list[i].remote, SliceOf(list[i].source), static_cast<uint32_t>(i)));
    }
  }
  ASSERT_TRUE(pair.run_until([&] {
    return pair.end(0).written.size() == count && pair.end(1).written.size() == count;
  })) << seed;
  ASSERT_TRUE(pair.run_until([&] { return pair.at(0).idle() && pair.at(1).idle(); })) << seed;
  pair.run_for(milliseconds(100));  // what is still in flight arrives
  for (int to = 0; to < 2; ++to) {
    auto& end = pair.end(to);
    std::sort(end.landed.begin(), end.landed.end());
    std::sort(end.written.begin(), end.written.end());
    ASSERT_EQ(end.landed.size(), count);
    ASSERT_EQ(end.written.size(), count);
    for (size_t i = 0; i < count; ++i) {
      ASSERT_EQ(end.landed[i], i);
      ASSERT_EQ(end.written[i], i);
      const Transfer& transfer = transfers[static_cast<size_t>(to)][i];
      ASSERT_TRUE(transfer.source == transfer.target) << seed << " " << i;
    }
    EXPECT_EQ(end.path.congestion->bytes_in_flight(), 0u);
  }
  EXPECT_EQ(pair.at(0).packets_invalid() + pair.at(1).packets_invalid(), 0u);
  pair.run_for(milliseconds(20));  // copies that were held back arrive
  EXPECT_EQ(pair.corrupted, pair.rejected);
}

TEST(Writes, AreBitExactWithoutLossAndSendNothingTwice) {
  ExpectWritesBitExact(1, {}, 20, 300000);
  ConnectionPair pair(2);
  auto source = TestBytes(3000000, 1);
  std::vector<std::byte> target(source.size());
  const auto remote = pair.at(1).expose(SliceOf(target), 5);
  ASSERT_TRUE(pair.at(0).write(remote, SliceOf(source), 6));
  ASSERT_TRUE(pair.run_until([&] { return pair.end(0).written.size() == 1; }));
  EXPECT_EQ(pair.end(0).written[0], 6u);
  EXPECT_EQ(pair.end(1).landed, std::vector<uint32_t>{5});
  EXPECT_TRUE(source == target);
  EXPECT_EQ(pair.at(0).retransmitted_packets(), 0u);
}

TEST(Writes, AreBitExactUnderLoss) {
  for (double loss : {0.01, 0.05, 0.2, 0.3}) {
    for (uint64_t seed = 1; seed <= 30; ++seed) {
      ExpectWritesBitExact(seed, ChannelFaults::Lossy(loss), 6, 60000);
    }
  }
}

TEST(Writes, AreBitExactUnderEveryFault) {
  for (double loss : {0.0, 0.01, 0.05, 0.2, 0.3}) {
    for (uint64_t seed = 1; seed <= 30; ++seed) {
      ExpectWritesBitExact(seed, ChannelFaults::Everything(loss), 6, 60000);
    }
  }
}

TEST(Writes, AreBitExactWithLargeAndSmallDatagrams) {
  for (size_t datagram : {512u, 8192u, 65000u}) {
    ConnectionOptions options;
    options.max_datagram_bytes = datagram;
    ExpectWritesBitExact(datagram, ChannelFaults::Everything(0.05), 5, 400000, options);
  }
}

TEST(Writes, ReorderingAloneIsSoonNotTakenForLoss) {
  ChannelFaults faults;
  faults.reorder = 0.2;
  faults.delay = microseconds(20);
  ConnectionPair pair(7, faults);
  auto source = TestBytes(20000000, 1);
  std::vector<std::byte> target(source.size());
  ASSERT_TRUE(pair.at(0).write(pair.at(1).expose(SliceOf(target), 0), SliceOf(source), 0));
  ASSERT_TRUE(pair.run_until([&] { return pair.end(0).written.size() == 1; }));
  EXPECT_TRUE(source == target);
  EXPECT_LT(pair.at(0).retransmitted_packets(), pair.end(0).sent / 10);
}

TEST(Transfers, MixFramesAndWritesUnderLoss) {
  ConnectionPair pair(11, ChannelFaults::Everything(0.1));
  auto source = TestBytes(500000, 3);
  std::vector<std::byte> target(source.size());
  ASSERT_TRUE(pair.at(0).write(pair.at(1).expose(SliceOf(target), 1), SliceOf(source), 1));
  uint64_t sent = 0;
  ASSERT_TRUE(pair.run_until([&] {
    while (sent < 500 && pair.at(0).send_frame(FrameOf(11, 0, sent, 300))) ++sent;
    return pair.end(1).frames.size() == 500 && pair.end(0).written.size() == 1;
  }));
  for (uint64_t i = 0; i < 500; ++i) ASSERT_EQ(pair.end(1).frames[i], FrameOf(11, 0, i, 300));
  EXPECT_TRUE(source == target);
}

TEST(Transfers, RepeatExactlyFromTheirSeed) {
  const auto run = [](uint64_t seed) {
    ConnectionPair pair(seed, ChannelFaults::Everything(0.2));
    auto source = TestBytes(100000, 3);
    std::vector<std::byte> target(source.size());
    EXPECT_TRUE(pair.at(0).write(pair.at(1).expose(SliceOf(target), 1), SliceOf(source), 1));
    for (int i = 0; i < 50; ++i) EXPECT_TRUE(pair.at(1).send_frame(TestBytes(200, 9)));
    EXPECT_TRUE(pair.run_until([&] { return pair.end(0).written.size() == 1; }));
    pair.run_for(seconds(2));
    return pair.trace;
  };
  for (uint64_t seed = 1; seed <= 5; ++seed) EXPECT_EQ(run(seed), run(seed)) << seed;
  EXPECT_NE(run(1), run(2));
}

// The tail loss of RFC 8985: the last packets of a transfer are not followed by any that prove
// their loss.
TEST(Transfers, RecoverFromALostTailAfterOneProbe) {
  for (int lost = 1; lost <= 6; ++lost) {
    ConnectionPair pair(12);
    ASSERT_TRUE(pair.establish());
    pair.run_for(milliseconds(50));
    auto source = TestBytes(20000, 3);
    std::vector<std::byte> target(source.size());
    const auto remote = pair.at(1).expose(SliceOf(target), 1);
    const uint64_t packets = 20000 / 1386 + 1;
    for (int i = 0; i < lost; ++i) {
      pair.end(0).faults.drop_mask |=
          1ull << (pair.end(0).sent + packets - 1 - static_cast<uint64_t>(i));
    }
    const Instant start = pair.now;
    ASSERT_TRUE(pair.at(0).write(remote, SliceOf(source), 1));
    ASSERT_TRUE(pair.run_until([&] { return pair.end(0).written.size() == 1; }));
    EXPECT_TRUE(source == target);
    EXPECT_LE(pair.now - start, milliseconds(2)) << lost;
    EXPECT_GE(pair.at(0).retransmitted_packets(), 1u) << "the pattern dropped nothing";
  }
}

// Small frames are acknowledged lazily. Where packets get lost, their sender asks for an
// acknowledgement at once, so that it misses an answer after a fraction of that time.
TEST(Frames, AreMissedSoonWherePacketsWereLostLately) {
  ConnectionPair pair(13);
  ASSERT_TRUE(pair.establish());
  pair.run_for(milliseconds(50));
  for (uint64_t frame = 1; frame <= 2; ++frame) {
    pair.end(0).faults.drop_mask = 1ull << pair.end(0).sent;
    const Instant start = pair.now;
    ASSERT_TRUE(pair.at(0).send_frame(TestBytes(100, frame)));
    ASSERT_TRUE(pair.run_until([&] { return pair.end(1).frames.size() == frame; }));
    ASSERT_TRUE(pair.run_until([&] { return pair.at(0).idle(); }));
    ASSERT_EQ(pair.at(0).retransmitted_packets(), frame) << "the pattern dropped nothing";
    if (frame == 2) {
      EXPECT_LT(pair.now - start, ConnectionOptions{}.max_ack_delay);
    } else {
      EXPECT_GT(pair.now - start, ConnectionOptions{}.max_ack_delay);
    }
  }
}

// The sizes are equal so that the kernel cuts them all from one message.
TEST(Transfer, DatagramsOfOneFrameAreOfOneSizeThoughTheFirstHasAnAcknowledgement) {
  ConnectionPair pair(1);
  ASSERT_TRUE(pair.establish());
  pair.run_for(seconds(1));
  ASSERT_TRUE(pair.at(1).send_frame(TestBytes(100, 1)));
  ASSERT_TRUE(pair.run_until([&] { return pair.end(0).frames.size() == 1; }));
  std::vector<size_t> sizes;
  std::vector<bool> acknowledge;
  pair.on_sent = [&](int from, std::span<const std::byte> datagram) {
    PacketBody body;
    if (from == 1 || !ParsePacketBody(datagram.subspan(kPacketHeaderBytes), body)) return;
    if (body.frames.empty()) return;
    sizes.push_back(datagram.size());
    acknowledge.push_back(body.has_ack);
  };
  const auto frame = TestBytes(5000, 2);
  ASSERT_TRUE(pair.at(0).send_frame(frame));
  ASSERT_TRUE(pair.run_until([&] { return pair.end(1).frames.size() == 1; }));
  EXPECT_EQ(pair.end(1).frames.front(), frame);
  ASSERT_EQ(acknowledge, (std::vector<bool>{true, false, false, false}));
  EXPECT_EQ(sizes[1], sizes[0]);
  EXPECT_EQ(sizes[2], sizes[0]);
  EXPECT_LT(sizes[3], sizes[0]);
}

}  // namespace
}  // namespace rocecoll
