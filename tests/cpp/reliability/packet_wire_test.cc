// SPDX-License-Identifier: Apache-2.0
#include "transport/datagram/reliability/packet_wire.h"

#include <gtest/gtest.h>

#include "reliability/connection_pair.h"

namespace rocecoll {
namespace {

TEST(PacketWire, HeaderSurvivesTheRoundTripAndHasTheDocumentedBytes) {
  std::vector<std::byte> bytes(kPacketHeaderBytes);
  EXPECT_EQ(WritePacketHeader(bytes, {PacketType::kReset, 0x1122334455667788, 7}), 40u);
  const auto header = ParsePacketHeader(bytes);
  ASSERT_TRUE(header);
  EXPECT_EQ(header->type, PacketType::kReset);
  EXPECT_EQ(header->connection_id, 0x1122334455667788u);
  EXPECT_EQ(header->packet_number, 7u);
  EXPECT_EQ(bytes[0], std::byte{1});
  EXPECT_EQ(bytes[1], std::byte{3});
  EXPECT_EQ(bytes[8], std::byte{0x88});
  EXPECT_EQ(bytes[15], std::byte{0x11});
  EXPECT_EQ(bytes[16], std::byte{7});
}

TEST(PacketWire, RefusesWhatIsNotOurs) {
  std::vector<std::byte> good(kPacketHeaderBytes);
  WritePacketHeader(good, {PacketType::kPacket, 1, 1});
  for (size_t size = 0; size < kPacketHeaderBytes; ++size) {
    EXPECT_FALSE(ParsePacketHeader(std::span(good).first(size)));
    EXPECT_FALSE(VerifyPacket(std::span(good).first(size)));
  }
  const auto with = [&](size_t offset, int value) {
    auto bytes = good;
    bytes[offset] = static_cast<std::byte>(value);
    return ParsePacketHeader(bytes).has_value();
  };
  EXPECT_TRUE(with(1, 6));
  EXPECT_FALSE(with(0, 2));
  EXPECT_FALSE(with(1, 0));
  EXPECT_FALSE(with(1, 8));
  EXPECT_FALSE(with(2, kPacketHeaderBytes - 1));
  EXPECT_TRUE(with(2, kPacketHeaderBytes));
  EXPECT_FALSE(with(2, kPacketHeaderBytes + 1));
  EXPECT_FALSE(with(3, 1));
  EXPECT_FALSE(with(4, 1));
}

TEST(PacketWire, SealCoversHeaderAndPayloadAndEveryBit) {
  for (size_t payload_size : {0u, 1u, 1000u}) {
    auto control = TestBytes(kPacketHeaderBytes + 30, 1);
    WritePacketHeader(control, {PacketType::kPacket, 1, 1});
    const auto payload = TestBytes(payload_size, 2);
    SealPacket(control, payload);
    std::vector<std::byte> datagram = control;
    datagram.insert(datagram.end(), payload.begin(), payload.end());
    ASSERT_TRUE(VerifyPacket(datagram));
    for (size_t bit = 0; bit < datagram.size() * 8; ++bit) {
      const auto mask = static_cast<std::byte>(1u << (bit % 8));
      datagram[bit / 8] ^= mask;
      ASSERT_FALSE(VerifyPacket(datagram)) << bit;
      datagram[bit / 8] ^= mask;
    }
    datagram.push_back(std::byte{0});
    EXPECT_FALSE(VerifyPacket(datagram));
  }
}

TEST(PacketWire, SealedHeadersAreTheBeginningOfWhatIsNoPayload) {
  for (const size_t control_bytes : {kPacketHeaderBytes + 30, size_t{1000}}) {
    auto datagram = TestBytes(control_bytes + 100, 1);
    WritePacketHeader(datagram, {PacketType::kPacket, 1, 1});
    EXPECT_FALSE(HasSealedHeaders(datagram));
    SealHeaders(std::span(datagram).first(control_bytes));
    EXPECT_TRUE(HasSealedHeaders(datagram));
    ASSERT_TRUE(ParsePacketHeader(datagram));
    ASSERT_TRUE(VerifyPacket(datagram));
    const size_t covered = std::min(control_bytes, kSealedHeaderBytes);
    for (size_t bit = 0; bit < datagram.size() * 8; ++bit) {
      const auto mask = static_cast<std::byte>(1u << (bit % 8));
      datagram[bit / 8] ^= mask;
      ASSERT_EQ(VerifyPacket(datagram), bit / 8 >= covered) << bit;
      datagram[bit / 8] ^= mask;
    }
    // Only packets of a connection leave out any fields.
    datagram[1] = static_cast<std::byte>(PacketType::kNotice);
    EXPECT_FALSE(ParsePacketHeader(datagram));
    EXPECT_FALSE(VerifyPacket(std::span(datagram).first(covered - 1)));
  }
}

TEST(PacketWire, InitBodyOfALiveConnectionParses) {
  ConnectionPair pair(1, {}, {}, false);
  std::vector<std::byte> init;
  pair.on_sent = [&](int, std::span<const std::byte> bytes) {
    init.assign(bytes.begin(), bytes.end());
  };
  pair.run_for(microseconds(1));
  ASSERT_EQ(init.size(), 96u);
  const auto body = ParseInitBody(init);
  ASSERT_TRUE(body);
  EXPECT_EQ(body->link, (LinkId{7, 9, 0, 1}));
  EXPECT_EQ(body->source_id, 0x1000u);
  EXPECT_EQ(body->destination_id, 0u);
  EXPECT_FALSE(ParseInitBody(std::span(init).first(79)));
}

}  // namespace
}  // namespace rocecoll
