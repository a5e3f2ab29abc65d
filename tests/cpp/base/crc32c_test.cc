// SPDX-License-Identifier: Apache-2.0
#include "base/crc32c.h"

#include <gtest/gtest.h>

#include <string_view>
#include <vector>

#include "base/random.h"

namespace rocecoll {
namespace {

std::vector<std::byte> RandomBytes(size_t size, uint64_t seed) {
  Random random(seed);
  std::vector<std::byte> bytes(size);
  for (auto& byte : bytes) byte = static_cast<std::byte>(random.next());
  return bytes;
}

TEST(Crc32c, MatchesThePublishedVectors) {
  const std::string_view digits = "123456789";
  EXPECT_EQ(Crc32c(std::as_bytes(std::span(digits))), 0xe3069283u);
  // RFC 3720 appendix B.4.
  std::vector<std::byte> block(32, std::byte{0});
  EXPECT_EQ(Crc32c(block), 0x8a9136aau);
  block.assign(32, std::byte{0xff});
  EXPECT_EQ(Crc32c(block), 0x62a8ab43u);
  for (size_t i = 0; i < block.size(); ++i) block[i] = static_cast<std::byte>(i);
  EXPECT_EQ(Crc32c(block), 0x46dd794eu);
  EXPECT_EQ(Crc32cPortable(block), 0x46dd794eu);
}

TEST(Crc32c, EqualsThePortableVersionForEveryShortLengthAndAlignment) {
  const auto bytes = RandomBytes(1100, 1);
  for (size_t offset = 0; offset < 9; ++offset) {
    for (size_t size = 0; size + offset <= bytes.size(); size += size < 300 ? 1 : 37) {
      const auto part = std::span(bytes).subspan(offset, size);
      ASSERT_EQ(Crc32c(part), Crc32cPortable(part)) << offset << " " << size;
    }
  }
}

TEST(Crc32c, EqualsThePortableVersionForLongBuffers) {
  for (size_t size : {8192u, 24575u, 24576u, 24577u, 65507u, 100000u}) {
    const auto bytes = RandomBytes(size, size);
    EXPECT_EQ(Crc32c(bytes), Crc32cPortable(bytes)) << size;
  }
}

TEST(Crc32c, ContinuesFromAnyCut) {
  const auto bytes = RandomBytes(3000, 2);
  const uint32_t whole = Crc32c(bytes);
  for (size_t cut = 0; cut <= bytes.size(); cut += 13) {
    const uint32_t first = Crc32c(std::span(bytes).first(cut));
    ASSERT_EQ(Crc32c(std::span(bytes).subspan(cut), first), whole) << cut;
  }
}

TEST(Crc32c, NoticesEveryFlippedBit) {
  auto bytes = RandomBytes(700, 3);
  const uint32_t whole = Crc32c(bytes);
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    const auto mask = static_cast<std::byte>(1u << (bit % 8));
    bytes[bit / 8] ^= mask;
    ASSERT_NE(Crc32c(bytes), whole) << bit;
    bytes[bit / 8] ^= mask;
  }
}

}  // namespace
}  // namespace rocecoll
