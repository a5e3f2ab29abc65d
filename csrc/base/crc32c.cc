// SPDX-License-Identifier: Apache-2.0
#include "base/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace rocecoll {
namespace {

constexpr uint32_t kPolynomial = 0x82f63b78;  // bits reversed: bit 31 is x^0

// Multiplies a residue by x.
constexpr uint32_t TimesX(uint32_t value) {
  return (value >> 1) ^ ((value & 1) != 0 ? kPolynomial : 0);
}

using SlicingTables = std::array<std::array<uint32_t, 256>, 8>;

// Slicing by 8: table k advances a byte past k further zero bytes.
constexpr SlicingTables MakeSlicingTables() {
  SlicingTables tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit) value = TimesX(value);
    tables[0][byte] = value;
  }
  for (size_t k = 1; k < 8; ++k) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint32_t before = tables[k - 1][byte];
      tables[k][byte] = (before >> 8) ^ tables[0][before & 0xff];
    }
  }
  return tables;
}

constexpr SlicingTables kSlicing = MakeSlicingTables();

uint64_t LoadWord(const std::byte* from) {
  uint64_t word;
  std::memcpy(&word, from, sizeof(word));
  return word;
}

#if defined(__x86_64__)

// One pass runs three streams of at most this many words, to hide the 3-cycle latency of the CRC
// instruction: 24 KiB, more than a datagram usually has.
constexpr size_t kMaxStreamWords = 1024;
// Below this many bytes the combination costs more than the streams gain.
constexpr size_t kMinStreamedBytes = 192;

// kShift[w] = x^(64 w - 33): the factor that moves a CRC past w words. The 33 is what the
// carry-less product and the final reduction add (the product of two reversed 32-bit residues,
// read as a reversed 64-bit word, is x times their product; reducing the word multiplies by x^32).
constexpr std::array<uint32_t, 2 * kMaxStreamWords + 1> MakeShifts() {
  std::array<uint32_t, 2 * kMaxStreamWords + 1> shifts{};
  uint32_t power = 0x80000000;  // x^0
  for (int i = 0; i < 64 - 33; ++i) power = TimesX(power);
  for (size_t words = 1; words < shifts.size(); ++words) {
    shifts[words] = power;
    for (int i = 0; i < 64; ++i) power = TimesX(power);
  }
  return shifts;
}

constexpr auto kShift = MakeShifts();

__attribute__((target("sse4.2,pclmul"))) inline uint64_t Product(uint64_t crc, uint32_t factor) {
  const __m128i product =
      _mm_clmulepi64_si128(_mm_cvtsi64_si128(static_cast<int64_t>(crc)),
                           _mm_cvtsi64_si128(static_cast<int64_t>(uint64_t{factor})), 0);
  return static_cast<uint64_t>(_mm_cvtsi128_si64(product));
}

__attribute__((target("sse4.2,pclmul"))) uint32_t Crc32cStreams(std::span<const std::byte> bytes,
                                                                uint32_t previous) {
  const std::byte* at = bytes.data();
  size_t left = bytes.size();
  uint64_t crc = ~previous;
  while (left >= kMinStreamedBytes) {
    const size_t words = left / 24 < kMaxStreamWords ? left / 24 : kMaxStreamWords;
    const size_t stride = words * 8;
    uint64_t second = 0;
    uint64_t third = 0;
    for (size_t i = 0; i < stride; i += 8) {
      crc = _mm_crc32_u64(crc, LoadWord(at + i));
      second = _mm_crc32_u64(second, LoadWord(at + stride + i));
      third = _mm_crc32_u64(third, LoadWord(at + 2 * stride + i));
    }
    const uint64_t moved = Product(crc, kShift[2 * words]) ^ Product(second, kShift[words]);
    crc = _mm_crc32_u64(0, moved) ^ third;
    at += 3 * stride;
    left -= 3 * stride;
  }
  for (; left >= 8; at += 8, left -= 8) crc = _mm_crc32_u64(crc, LoadWord(at));
  for (; left > 0; ++at, --left) {
    crc = _mm_crc32_u8(static_cast<uint32_t>(crc), static_cast<uint8_t>(*at));
  }
  return ~static_cast<uint32_t>(crc);
}

using Crc32cFunction = uint32_t (*)(std::span<const std::byte>, uint32_t);

Crc32cFunction ChooseForThisCpu() {
  __builtin_cpu_init();
  const bool fast = __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul");
  return fast ? Crc32cStreams : Crc32cPortable;
}

#endif

}  // namespace

uint32_t Crc32cPortable(std::span<const std::byte> bytes, uint32_t previous) {
  const std::byte* at = bytes.data();
  size_t left = bytes.size();
  uint32_t crc = ~previous;
  for (; left >= 8; at += 8, left -= 8) {
    const uint64_t word = LoadWord(at) ^ crc;
    uint32_t next = 0;
    for (size_t k = 0; k < 8; ++k) next ^= kSlicing[7 - k][(word >> (8 * k)) & 0xff];
    crc = next;
  }
  for (; left > 0; ++at, --left) {
    crc = (crc >> 8) ^ kSlicing[0][(crc ^ static_cast<uint8_t>(*at)) & 0xff];
  }
  return ~crc;
}

uint32_t Crc32c(std::span<const std::byte> bytes, uint32_t previous) {
#if defined(__x86_64__)
  static const Crc32cFunction function = ChooseForThisCpu();
  return function(bytes, previous);
#else
  return Crc32cPortable(bytes, previous);
#endif
}

}  // namespace rocecoll
