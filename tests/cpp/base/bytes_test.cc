// SPDX-License-Identifier: Apache-2.0
#include "base/bytes.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace rocecoll {
namespace {

std::vector<std::byte> Bytes(std::initializer_list<int> values) {
  std::vector<std::byte> bytes;
  for (int value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

TEST(LoadStoreTest, AreLittleEndianAtAnyAddress) {
  std::array<std::byte, 9> buffer{};
  StoreLe<uint32_t>(buffer.data() + 1, 0x11223344);
  EXPECT_EQ(buffer[1], std::byte{0x44});
  EXPECT_EQ(buffer[4], std::byte{0x11});
  EXPECT_EQ(LoadLe<uint32_t>(buffer.data() + 1), 0x11223344u);
  EXPECT_EQ(LoadLe<uint16_t>(buffer.data() + 2), 0x2233);
  EXPECT_EQ(buffer[0], std::byte{0});
  EXPECT_EQ(buffer[5], std::byte{0});
}

TEST(ByteReaderTest, ReadsFieldsInOrder) {
  const auto bytes = Bytes({1, 2, 0, 3, 0, 0, 0, 9, 8});
  ByteReader reader(bytes);
  EXPECT_EQ(reader.Read<uint8_t>(), 1);
  EXPECT_EQ(reader.Read<uint16_t>(), 2);
  EXPECT_EQ(reader.remaining(), 6u);
  EXPECT_EQ(reader.Read<uint32_t>(), 3u);
  const auto rest = reader.ReadBytes(2);
  ASSERT_EQ(rest.size(), 2u);
  EXPECT_EQ(rest.data(), bytes.data() + 7);
  EXPECT_TRUE(reader.ok());
  EXPECT_EQ(reader.remaining(), 0u);
}

TEST(ByteReaderTest, ReadingPastTheEndYieldsZeroAndFailsForGood) {
  const auto bytes = Bytes({0xff, 0xff, 0xff});
  ByteReader reader(bytes);
  EXPECT_EQ(reader.Read<uint32_t>(), 0u);
  EXPECT_FALSE(reader.ok());
  EXPECT_EQ(reader.remaining(), 0u);
  // Three bytes are left, but the reader has failed.
  EXPECT_EQ(reader.Read<uint8_t>(), 0);
  EXPECT_TRUE(reader.ReadBytes(1).empty());
  EXPECT_FALSE(reader.ok());
}

TEST(ByteReaderTest, ExactEndIsFineAndOneMoreIsNot) {
  const auto bytes = Bytes({1, 2, 3, 4});
  ByteReader exact(bytes);
  EXPECT_EQ(exact.Read<uint32_t>(), 0x04030201u);
  EXPECT_TRUE(exact.ok());
  EXPECT_TRUE(exact.ReadBytes(0).empty());
  EXPECT_TRUE(exact.ok());
  exact.Read<uint8_t>();
  EXPECT_FALSE(exact.ok());
}

TEST(ByteReaderTest, HugeCountsDoNotWrapAround) {
  const auto bytes = Bytes({1, 2, 3, 4});
  ByteReader reader(bytes);
  reader.Read<uint16_t>();
  EXPECT_TRUE(reader.ReadBytes(SIZE_MAX).empty());
  EXPECT_FALSE(reader.ok());
}

TEST(ByteReaderTest, EmptyInputFailsOnTheFirstField) {
  ByteReader reader({});
  EXPECT_TRUE(reader.ok());
  EXPECT_EQ(reader.remaining(), 0u);
  EXPECT_EQ(reader.Read<uint8_t>(), 0);
  EXPECT_FALSE(reader.ok());
}

TEST(ByteWriterTest, WritesWhatTheReaderReads) {
  std::array<std::byte, 16> buffer{};
  ByteWriter writer(buffer);
  EXPECT_EQ(writer.room(), 16u);
  writer.Write<uint64_t>(0x0123456789abcdef);
  writer.Write<uint16_t>(0xbeef);
  writer.WriteBytes(Bytes({7, 8}));
  writer.WriteBytes({});
  EXPECT_EQ(writer.size(), 12u);
  EXPECT_EQ(writer.room(), 4u);
  EXPECT_EQ(writer.written().data(), buffer.data());
  ByteReader reader(writer.written());
  EXPECT_EQ(reader.Read<uint64_t>(), 0x0123456789abcdefu);
  EXPECT_EQ(reader.Read<uint16_t>(), 0xbeef);
  EXPECT_EQ(reader.Read<uint8_t>(), 7);
  EXPECT_EQ(reader.Read<uint8_t>(), 8);
  EXPECT_TRUE(reader.ok());
}

TEST(ByteWriterTest, RefusesToWritePastTheEndAndKeepsWhatWasWritten) {
  std::array<std::byte, 4> buffer{};
  ByteWriter writer(std::span<std::byte>(buffer).first(3));
  writer.Write<uint16_t>(0x0201);
  EXPECT_THROW(writer.Write<uint16_t>(0xffff), CheckFailure);
  EXPECT_THROW(writer.WriteBytes(Bytes({9, 9})), CheckFailure);
  writer.Write<uint8_t>(3);
  EXPECT_EQ(writer.room(), 0u);
  EXPECT_THROW(writer.Write<uint8_t>(4), CheckFailure);
  EXPECT_EQ((std::vector<std::byte>(buffer.begin(), buffer.end())), Bytes({1, 2, 3, 0}));
}

}  // namespace
}  // namespace rocecoll
