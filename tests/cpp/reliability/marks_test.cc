// SPDX-License-Identifier: Apache-2.0
// Congestion Experienced (RFC 3168): the sender of the packets learns how many marks arrived.
#include <gtest/gtest.h>

#include <set>

#include "reliability/connection_pair.h"
#include "transport/datagram/reliability/frame_wire.h"

namespace rocecoll {
namespace {

bool AsksForAcknowledgement(std::span<const std::byte> packet) {
  PacketBody body;
  return ParsePacketHeader(packet)->type == PacketType::kPacket &&
         ParsePacketBody(packet.subspan(kPacketHeaderBytes), body) && body.eliciting();
}

class Marks : public testing::TestWithParam<uint64_t> {};

// Packets and acknowledgements are duplicated and reordered, and in some cases the count begins
// just before its wrap.
TEST_P(Marks, AreCountedOnce) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    ChannelFaults faults;
    faults.duplicate = 0.3;
    faults.reorder = 0.3;
    ConnectionOptions options;
    options.first_number = GetParam();
    ConnectionPair pair(seed, faults, options);
    uint64_t marked = 0;
    pair.marks = [&](int from, std::span<const std::byte> packet) {
      if (ParsePacketHeader(packet)->packet_number % 3 != 0) return false;
      if (from == 0 && AsksForAcknowledgement(packet)) ++marked;
      return true;
    };
    ASSERT_TRUE(pair.establish());
    std::vector<std::byte> source = TestBytes(100'000, 1);
    std::vector<std::byte> target(source.size());
    ASSERT_TRUE(pair.at(0).write(pair.at(1).expose(SliceOf(target), 1), SliceOf(source), 1));
    ASSERT_TRUE(pair.run_until([&] { return pair.end(0).written.size() == 1; }));
    pair.run_for(milliseconds(20));  // packets declared lost too early arrive, too
    EXPECT_GT(marked, 20u);
    EXPECT_EQ(pair.at(0).marked_packets(), marked) << seed;
    EXPECT_EQ(target, source);
  }
}

INSTANTIATE_TEST_SUITE_P(FirstNumber, Marks, testing::Values(0, (uint64_t{1} << 32) - 4));

// Lost packets were not counted, and no end reports more marks than arrived.
TEST(MarksUnderFaults, AreNeverMoreThanWhatWasSent) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    ConnectionPair pair(seed, ChannelFaults::Everything(0.2));
    uint64_t sent = 0;
    pair.marks = [&](int from, std::span<const std::byte> packet) {
      sent += from == 0 && AsksForAcknowledgement(packet) ? 1 : 0;
      return true;
    };
    ASSERT_TRUE(pair.establish());
    for (uint64_t i = 0; i < 60; ++i) ASSERT_TRUE(pair.at(0).send_frame(TestBytes(1000, i)));
    ASSERT_TRUE(pair.run_until([&] { return pair.end(1).frames.size() == 60; }));
    pair.run_for(milliseconds(500));
    EXPECT_GT(pair.at(0).marked_packets(), 0u);
    EXPECT_LE(pair.at(0).marked_packets(), sent);
  }
}

}  // namespace
}  // namespace rocecoll
