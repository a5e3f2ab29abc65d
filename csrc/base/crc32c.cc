// SPDX-License-Identifier: Apache-2.0
// Polynomials over GF(2) modulo the CRC's. A word holds a polynomial with its bits reversed: the
// lowest bit of the first byte is the highest power.
#include "base/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_acle.h>
#include <arm_neon.h>
#include <sys/auxv.h>
#endif

namespace rocecoll {
namespace {

constexpr uint32_t kPolynomial = 0x82f63b78;  // bits reversed: bit 31 is x^0

// Multiplies a residue by x.
constexpr uint32_t TimesX(uint32_t value) {
  return (value >> 1) ^ ((value & 1) != 0 ? kPolynomial : 0);
}

// x^exponent
constexpr uint32_t PowerOfX(int exponent) {
  uint32_t power = 0x80000000;  // x^0
  for (int i = 0; i < exponent; ++i) power = TimesX(power);
  return power;
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

uint32_t Crc32cByTables(std::span<const std::byte> bytes, uint32_t previous) {
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

// Names for a processor's CRC instructions. A CRC is in the lower half of its word, so that no
// instruction has to clear the upper half. Product() is the carry-less product.
#if defined(__x86_64__)
#define ROCECOLL_CRC_STREAMS __attribute__((target("sse4.2,pclmul")))

ROCECOLL_CRC_STREAMS inline uint64_t Advance(uint64_t crc, uint64_t word) {
  return _mm_crc32_u64(crc, word);
}
ROCECOLL_CRC_STREAMS inline uint64_t AdvanceByte(uint64_t crc, std::byte byte) {
  return _mm_crc32_u8(static_cast<uint32_t>(crc), static_cast<uint8_t>(byte));
}
ROCECOLL_CRC_STREAMS inline uint64_t Product(uint64_t a, uint64_t b) {
  const __m128i product = _mm_clmulepi64_si128(_mm_cvtsi64_si128(static_cast<int64_t>(a)),
                                               _mm_cvtsi64_si128(static_cast<int64_t>(b)), 0);
  return static_cast<uint64_t>(_mm_cvtsi128_si64(product));
}
#elif defined(__aarch64__)
#define ROCECOLL_CRC_STREAMS __attribute__((target("+crc+crypto")))

ROCECOLL_CRC_STREAMS inline uint64_t Advance(uint64_t crc, uint64_t word) {
  return __crc32cd(static_cast<uint32_t>(crc), word);
}
ROCECOLL_CRC_STREAMS inline uint64_t AdvanceByte(uint64_t crc, std::byte byte) {
  return __crc32cb(static_cast<uint32_t>(crc), static_cast<uint8_t>(byte));
}
ROCECOLL_CRC_STREAMS inline uint64_t Product(uint64_t a, uint64_t b) {
  return vgetq_lane_u64(vreinterpretq_u64_p128(vmull_p64(a, b)), 0);
}
#endif

#if defined(ROCECOLL_CRC_STREAMS)

// One pass runs three streams of at most this many words, to hide the 3-cycle latency of the CRC
// instruction: 24 KiB.
constexpr size_t kMaxStreamWords = 1024;
// Below this many bytes, combining the streams costs more than they gain.
constexpr size_t kMinStreamedBytes = 192;

// kShift[w] = x^(64 w - 33): the factor that moves a CRC past w words. The 33 is what the
// carry-less product and the final reduction add (the product of two reversed 32-bit residues,
// read as a reversed 64-bit word, is x times their product; reducing the word multiplies by x^32).
constexpr std::array<uint32_t, 2 * kMaxStreamWords + 1> MakeShifts() {
  std::array<uint32_t, 2 * kMaxStreamWords + 1> shifts{};
  uint32_t power = PowerOfX(64 - 33);
  for (size_t words = 1; words < shifts.size(); ++words) {
    shifts[words] = power;
    for (int i = 0; i < 64; ++i) power = TimesX(power);
  }
  return shifts;
}

constexpr auto kShift = MakeShifts();

// The remainder, in one stream.
ROCECOLL_CRC_STREAMS inline uint32_t AdvanceRest(uint64_t crc, const std::byte* at, size_t left) {
  for (; left >= 8; at += 8, left -= 8) crc = Advance(crc, LoadWord(at));
  for (; left > 0; ++at, --left) crc = AdvanceByte(crc, *at);
  return static_cast<uint32_t>(crc);
}

ROCECOLL_CRC_STREAMS uint32_t Crc32cByStreams(std::span<const std::byte> bytes, uint32_t previous) {
  const std::byte* at = bytes.data();
  size_t left = bytes.size();
  uint64_t crc = ~previous;
  while (left >= kMinStreamedBytes) {
    const size_t words = left / 24 < kMaxStreamWords ? left / 24 : kMaxStreamWords;
    const size_t stride = words * 8;
    uint64_t second = 0;
    uint64_t third = 0;
    for (size_t i = 0; i < stride; i += 8) {
      crc = Advance(crc, LoadWord(at + i));
      second = Advance(second, LoadWord(at + stride + i));
      third = Advance(third, LoadWord(at + 2 * stride + i));
    }
    const uint64_t moved = Product(crc, kShift[2 * words]) ^ Product(second, kShift[words]);
    crc = Advance(0, moved) ^ third;
    at += 3 * stride;
    left -= 3 * stride;
  }
  return ~AdvanceRest(crc, at, left);
}

#endif

#if defined(__x86_64__)
#define ROCECOLL_CRC_FOLDING __attribute__((target("avx512f,vpclmulqdq,sse4.2,pclmul")))

// Folding (Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ
// Instruction", Intel 2009): modulo the polynomial, 16 bytes equal two products that are added to
// the 16 bytes `bits` behind them. The first word is 64 powers higher; the carry-less product of
// two reversed 64-bit words is x times their product.
struct FoldFactors {
  uint64_t first;
  uint64_t second;
};
constexpr FoldFactors FoldOver(int bits) {
  return {uint64_t{PowerOfX(bits + 64 - 1)} << 32, uint64_t{PowerOfX(bits - 1)} << 32};
}
using VectorFactors = std::array<FoldFactors, 4>;  // for each 16 bytes of a vector
constexpr VectorFactors AllOver(int bits) {
  const FoldFactors each = FoldOver(bits);
  return {each, each, each, each};
}

constexpr size_t kVectorBytes = 64;
constexpr size_t kVectors = 4;  // in parallel, to hide the latency of the products
constexpr size_t kRoundBytes = kVectors * kVectorBytes;
constexpr VectorFactors kOverRound = AllOver(8 * kRoundBytes);
constexpr VectorFactors kOverOne = AllOver(8 * kVectorBytes);
// Fold the parts of a vector onto its last one, which stays as it is.
constexpr VectorFactors kOntoLast = {FoldOver(3 * 128), FoldOver(2 * 128), FoldOver(128), {0, 0}};
// Below this many bytes the streams are as fast.
constexpr size_t kMinFoldedBytes = 512;
static_assert(kMinFoldedBytes >= kRoundBytes);

ROCECOLL_CRC_FOLDING inline __m512i LoadVector(const void* from) {
  return _mm512_loadu_si512(from);
}
// Moves `value` forward by the factors and adds it to `there`.
ROCECOLL_CRC_FOLDING inline __m512i Fold(__m512i value, __m512i factors, __m512i there) {
  constexpr int kXorOfThree = 0x96;
  return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(value, factors, 0x00),
                                   _mm512_clmulepi64_epi128(value, factors, 0x11), there,
                                   kXorOfThree);
}

ROCECOLL_CRC_FOLDING uint32_t Crc32cByFolding(std::span<const std::byte> bytes, uint32_t previous) {
  if (bytes.size() < kMinFoldedBytes) return Crc32cByStreams(bytes, previous);
  const std::byte* at = bytes.data();
  const std::byte* const end = at + bytes.size();
  const __m512i crc = _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int>(~previous)));
  __m512i a = _mm512_xor_si512(LoadVector(at), crc);
  __m512i b = LoadVector(at + kVectorBytes);
  __m512i c = LoadVector(at + 2 * kVectorBytes);
  __m512i d = LoadVector(at + 3 * kVectorBytes);
  at += kRoundBytes;
  const __m512i over_round = LoadVector(kOverRound.data());
  while (static_cast<size_t>(end - at) >= kRoundBytes) {
    a = Fold(a, over_round, LoadVector(at));
    b = Fold(b, over_round, LoadVector(at + kVectorBytes));
    c = Fold(c, over_round, LoadVector(at + 2 * kVectorBytes));
    d = Fold(d, over_round, LoadVector(at + 3 * kVectorBytes));
    at += kRoundBytes;
  }
  const __m512i over_one = LoadVector(kOverOne.data());
  d = Fold(Fold(Fold(a, over_one, b), over_one, c), over_one, d);
  for (; static_cast<size_t>(end - at) >= kVectorBytes; at += kVectorBytes) {
    d = Fold(d, over_one, LoadVector(at));
  }
  // The factors of the last part are zero, so that it is added unchanged.
  d = Fold(d, LoadVector(kOntoLast.data()), _mm512_maskz_mov_epi64(0xc0, d));
  std::array<uint64_t, 8> words;
  _mm512_storeu_si512(words.data(), d);
  const uint64_t first = words[0] ^ words[2] ^ words[4] ^ words[6];
  const uint64_t second = words[1] ^ words[3] ^ words[5] ^ words[7];
  const uint64_t folded = Advance(Advance(0, first), second);
  return ~AdvanceRest(folded, at, static_cast<size_t>(end - at));
}

#endif

}  // namespace

std::vector<Crc32cKernel> UsableCrc32cKernels() {
  std::vector<Crc32cKernel> usable;
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool streams = __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul");
  const bool folding = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("vpclmulqdq");
  if (streams && folding) usable.push_back({"folding", Crc32cByFolding});
  if (streams) usable.push_back({"streams", Crc32cByStreams});
#elif defined(__aarch64__)
  constexpr unsigned long kNeeded = HWCAP_CRC32 | HWCAP_PMULL;
  if ((getauxval(AT_HWCAP) & kNeeded) == kNeeded) usable.push_back({"streams", Crc32cByStreams});
#endif
  usable.push_back({"tables", Crc32cByTables});
  return usable;
}

uint32_t Crc32c(std::span<const std::byte> bytes, uint32_t previous) {
  static const auto function = UsableCrc32cKernels().front().function;
  return function(bytes, previous);
}

}  // namespace rocecoll
