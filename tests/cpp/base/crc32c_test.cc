// SPDX-License-Identifier: Apache-2.0
#include "base/crc32c.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

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

uint32_t ByTables(std::span<const std::byte> bytes, uint32_t previous = 0) {
  return UsableCrc32cKernels().back().function(bytes, previous);
}

TEST(Crc32c, MatchesThePublishedVectors) {
  for (const Crc32cKernel& kernel : UsableCrc32cKernels()) {
    SCOPED_TRACE(kernel.name);
    const std::string_view digits = "123456789";
    EXPECT_EQ(kernel.function(std::as_bytes(std::span(digits)), 0), 0xe3069283u);
    // The values of RFC 3720 appendix B.4.
    std::vector<std::byte> block(32, std::byte{0});
    EXPECT_EQ(kernel.function(block, 0), 0x8a9136aau);
    block.assign(32, std::byte{0xff});
    EXPECT_EQ(kernel.function(block, 0), 0x62a8ab43u);
    for (size_t i = 0; i < block.size(); ++i) block[i] = static_cast<std::byte>(i);
    EXPECT_EQ(kernel.function(block, 0), 0x46dd794eu);
  }
}

TEST(Crc32c, EveryKernelEqualsTheTablesForEveryShortLengthAndAlignment) {
  const auto bytes = RandomBytes(1500, 1);
  for (const Crc32cKernel& kernel : UsableCrc32cKernels()) {
    for (size_t offset = 0; offset < 9; ++offset) {
      for (size_t size = 0; size + offset <= bytes.size(); size += size < 700 ? 1 : 37) {
        const auto part = std::span(bytes).subspan(offset, size);
        const auto previous = static_cast<uint32_t>(offset * 0x9e3779b9);
        ASSERT_EQ(kernel.function(part, previous), ByTables(part, previous))
            << kernel.name << " " << offset << " " << size;
      }
    }
  }
}

TEST(Crc32c, EveryKernelEqualsTheTablesForLongBuffers) {
  for (size_t size : {8192u, 24575u, 24576u, 24577u, 65000u, 65507u, 100000u}) {
    const auto bytes = RandomBytes(size, size);
    for (const Crc32cKernel& kernel : UsableCrc32cKernels()) {
      EXPECT_EQ(kernel.function(bytes, 1), ByTables(bytes, 1)) << kernel.name << " " << size;
    }
  }
}

// The buffer ends with its page, and no kernel may read past it.
TEST(Crc32c, NoKernelReadsPastTheEnd) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* const pages =
      mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(pages, MAP_FAILED);
  ASSERT_EQ(mprotect(static_cast<std::byte*>(pages) + page, page, PROT_NONE), 0);
  const std::span<const std::byte> all(static_cast<const std::byte*>(pages), page);
  for (const Crc32cKernel& kernel : UsableCrc32cKernels()) {
    for (size_t size = 0; size <= page; ++size) {
      const auto part = all.last(size);
      ASSERT_EQ(kernel.function(part, 7), ByTables(part, 7)) << kernel.name << " " << size;
    }
  }
  munmap(pages, 2 * page);
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
