// SPDX-License-Identifier: Apache-2.0
// Packets that no honest peer sends never cause a crash or a write, and are counted.
#include <gtest/gtest.h>

#include "base/bytes.h"
#include "reliability/connection_pair.h"
#include "transport/datagram/reliability/frame_wire.h"

namespace rocecoll {
namespace {

std::vector<std::byte> MakePacket(uint64_t to, uint64_t number,
                                  const std::function<void(ByteWriter&)>& write_body) {
  std::vector<std::byte> bytes(4096);
  const size_t header = WritePacketHeader(bytes, {PacketType::kPacket, to, number});
  ByteWriter body{std::span<std::byte>(bytes).subspan(header)};
  write_body(body);
  bytes.resize(header + body.size());
  SealPacket(bytes, {});
  return bytes;
}

TEST(Hostile, RandomBodiesNeverCrashOrWrite) {
  Random random(1);
  std::vector<std::byte> target(4096);
  const auto untouched = target;
  ConnectionPair pair(1);
  ASSERT_TRUE(pair.establish());
  pair.at(1).expose(SliceOf(target), 1);
  for (uint64_t i = 0; i < 30000; ++i) {
    const auto noise = TestBytes(random.below(200), random.next());
    auto packet = MakePacket(0x1001, 1000 + i, [&](ByteWriter& body) { body.WriteBytes(noise); });
    if (packet.size() > kPacketHeaderBytes) {
      packet[kPacketHeaderBytes] = static_cast<std::byte>(random.below(8));
    }
    pair.inject(1, packet);
    pair.inject(1, noise);
    if (pair.end(1).downs > 0) break;  // a random but valid CLOSE
  }
  EXPECT_EQ(target, untouched);
  EXPECT_GT(pair.at(1).packets_invalid(), 1000u);
}

// An end slows down for marks, but for no more than were acknowledged, whatever the peer claims.
TEST(Hostile, MarksAreBoundedByWhatIsAcknowledged) {
  ConnectionPair pair(1);
  ASSERT_TRUE(pair.establish());
  pair.run_for(milliseconds(10));
  pair.end(1).faults.dark_from = pair.now;  // from now on the test speaks for the peer
  std::vector<uint64_t> numbers;
  pair.on_sent = [&](int from, std::span<const std::byte> bytes) {
    if (from == 0) numbers.push_back(ParsePacketHeader(bytes)->packet_number);
  };
  for (uint64_t i = 0; i < 3; ++i) {
    ASSERT_TRUE(pair.at(0).send_frame(TestBytes(10, i)));
    pair.run_for(microseconds(10));
  }
  ASSERT_EQ(numbers.size(), 3u);
  const auto acknowledge = [&](uint64_t own_number, uint64_t acknowledged, uint32_t marks) {
    AckFrame ack;
    ack.receive_window = 1 << 20;
    ack.marked_packets = marks;
    ack.range_count = 1;
    ack.ranges[0] = {acknowledged, acknowledged + 1};
    pair.inject(0, MakePacket(0x1000, own_number, [&](ByteWriter& body) { WriteAck(body, ack); }));
  };
  acknowledge(1000, numbers[0], 1u << 31);
  EXPECT_EQ(pair.at(0).marked_packets(), 1u);
  acknowledge(999, numbers[1], 5);  // late, so its count is old
  EXPECT_EQ(pair.at(0).marked_packets(), 1u);
  acknowledge(1001, numbers[2], (1u << 31) + 1);
  EXPECT_EQ(pair.at(0).marked_packets(), 2u);
  acknowledge(1002, numbers[2], 1u << 30);
  EXPECT_EQ(pair.at(0).marked_packets(), 2u);
  EXPECT_EQ(pair.at(0).packets_invalid(), 0u);
}

// Real packets with flipped bytes and a correct CRC, as a broken peer would send them, in both
// directions of live traffic.
TEST(Hostile, MutatedTrafficNeverCrashesOrWritesOutside) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    Random random(seed);
    ConnectionPair pair(seed, ChannelFaults::Lossy(0.1));
    // Guard bytes surround the exposed memory.
    std::vector<std::byte> arena(3 * 20000, std::byte{0x5a});
    auto source = TestBytes(20000, 1);
    const LocalSlice middle{arena.data() + 20000, 20000, 0};
    ASSERT_TRUE(pair.at(0).write(pair.at(1).expose(middle, 1), SliceOf(source), 1));
    for (uint64_t i = 0; i < 20; ++i) ASSERT_TRUE(pair.at(0).send_frame(TestBytes(100, i)));
    std::vector<std::pair<int, std::vector<std::byte>>> mutants;
    pair.on_sent = [&](int from, std::span<const std::byte> bytes) {
      if (mutants.size() > 300) return;
      std::vector<std::byte> mutant(bytes.begin(), bytes.end());
      const uint64_t flips = 1 + random.below(4);
      for (uint64_t i = 0; i < flips; ++i) {
        const size_t reach = std::min<size_t>(mutant.size(), 160);
        mutant[random.below(reach)] ^= static_cast<std::byte>(1 + random.below(255));
      }
      if (random.chance(0.2)) mutant.resize(kPacketHeaderBytes + random.below(mutant.size() - 39));
      mutants.emplace_back(1 - from, std::move(mutant));
    };
    for (int step = 0; step < 400; ++step) {
      if (!pair.step(pair.now + milliseconds(1))) break;
      auto batch = std::move(mutants);
      mutants.clear();
      for (const auto& [to, bytes] : batch) pair.inject(to, bytes);
    }
    for (size_t i = 0; i < 20000; ++i) {
      ASSERT_EQ(arena[i], std::byte{0x5a});
      ASSERT_EQ(arena[40000 + i], std::byte{0x5a});
    }
  }
}

TEST(Hostile, DataWithAWrongKeyOrOutsideItsRegionIsDroppedAndCounted) {
  ConnectionPair pair(1);
  ASSERT_TRUE(pair.establish());
  std::vector<std::byte> target(1000);
  const auto untouched = target;
  const auto remote = pair.at(1).expose(SliceOf(target), 1);
  const auto payload = TestBytes(100, 1);
  uint64_t number = 100;
  const auto inject = [&](uint64_t region, uint64_t key, uint64_t offset) {
    pair.inject(1, MakePacket(0x1001, number++, [&](ByteWriter& body) {
                  WriteDataHeader(body, {region, key, offset, payload});
                  body.WriteBytes(payload);
                }));
  };
  inject(remote.base, remote.key + 1, 0);
  inject(remote.base, remote.key, 901);
  inject(remote.base, remote.key, UINT64_MAX - 50);
  inject(remote.base, remote.key, uint64_t{1} << 63);
  inject(remote.base + 1, remote.key, 0);
  inject(remote.base + (uint64_t{1} << 32), remote.key, 0);
  inject(0, remote.key, 0);
  EXPECT_EQ(pair.at(1).packets_invalid(), 7u);
  EXPECT_EQ(target, untouched);
  inject(remote.base, remote.key, 900);
  EXPECT_EQ(pair.at(1).packets_invalid(), 7u);
  EXPECT_EQ(target[950], payload[50]);
}

TEST(Hostile, AnAcknowledgementOfWhatWasNeverSentIsDropped) {
  ConnectionPair pair(1);
  ASSERT_TRUE(pair.establish());
  AckFrame ack;
  ack.range_count = 1;
  ack.ranges[0] = {0, 5000};
  pair.inject(1, MakePacket(0x1001, 100, [&](ByteWriter& body) { WriteAck(body, ack); }));
  EXPECT_EQ(pair.at(1).packets_invalid(), 1u);
}

TEST(Hostile, AReplayedPacketChangesNothing) {
  ConnectionPair pair(1);
  ASSERT_TRUE(pair.establish());
  std::vector<std::vector<std::byte>> recorded;
  pair.on_sent = [&](int from, std::span<const std::byte> bytes) {
    if (from == 0) recorded.emplace_back(bytes.begin(), bytes.end());
  };
  for (uint64_t i = 0; i < 20; ++i) ASSERT_TRUE(pair.at(0).send_frame(TestBytes(100, i)));
  ASSERT_TRUE(pair.run_until([&] { return pair.end(1).frames.size() == 20; }));
  auto source = TestBytes(500, 1);
  std::vector<std::byte> target(500);
  ASSERT_TRUE(pair.at(0).write(pair.at(1).expose(SliceOf(target), 1), SliceOf(source), 1));
  ASSERT_TRUE(pair.run_until([&] { return pair.end(1).landed.size() == 1; }));
  target.assign(500, std::byte{0});
  for (const auto& bytes : recorded) pair.inject(1, bytes);
  pair.run_for(seconds(1));
  EXPECT_EQ(pair.end(1).frames.size(), 20u);
  EXPECT_EQ(pair.end(1).landed.size(), 1u);
  EXPECT_EQ(target, std::vector<std::byte>(500));
}

TEST(Hostile, ReplayedPacketsKeepNoDeadPeerAlive) {
  ConnectionPair pair(1);
  std::vector<std::vector<std::byte>> recorded;
  pair.on_sent = [&](int from, std::span<const std::byte> bytes) {
    if (from == 1) recorded.emplace_back(bytes.begin(), bytes.end());
  };
  ASSERT_TRUE(pair.establish());
  ASSERT_TRUE(pair.at(1).send_frame(TestBytes(100, 1)));
  pair.run_for(seconds(2));
  ASSERT_GT(recorded.size(), 2u);
  pair.answer_reset = false;
  pair.destroy(1);
  for (int i = 0; i < 150 && pair.end(0).downs == 0; ++i) {
    pair.run_for(milliseconds(100));
    for (const auto& packet : recorded) pair.inject(0, packet);
  }
  EXPECT_EQ(pair.end(0).downs, 1);
}

TEST(Hostile, FramesFarAheadAreNotBufferedWithoutBound) {
  ConnectionPair pair(1);
  ASSERT_TRUE(pair.establish());
  const auto bytes = TestBytes(4000, 1);
  for (uint64_t i = 1; i < 2000; ++i) {
    pair.inject(
        1, MakePacket(0x1001, 100 + i, [&](ByteWriter& body) { WriteFrame(body, {i, bytes}); }));
  }
  pair.inject(1, MakePacket(0x1001, 9000, [&](ByteWriter& body) {
                WriteFrame(body, {0, std::span(bytes).first(1)});
              }));
  const size_t fit = (1024 * 1024) / 4000;
  EXPECT_EQ(pair.end(1).frames.size(), fit + 1);
}

TEST(Hostile, AFrameWithoutEndEndsTheConnectionAndIsNotKept) {
  ConnectionPair pair(1);
  ASSERT_TRUE(pair.establish());
  const auto bytes = TestBytes(4000, 1);
  for (uint64_t i = 0; i < 2000; ++i) {
    pair.inject(1, MakePacket(0x1001, 100 + i, [&](ByteWriter& body) {
                  WriteFrame(body, {i, bytes, /*ends=*/false});
                }));
  }
  EXPECT_TRUE(pair.end(1).frames.empty());
  EXPECT_EQ(pair.end(1).downs, 1);
  EXPECT_EQ(pair.at(1).status().code(), StatusCode::kNetwork);
  EXPECT_NE(pair.at(1).status().message().find("longer than any may be"), std::string::npos);
}

}  // namespace
}  // namespace rocecoll
