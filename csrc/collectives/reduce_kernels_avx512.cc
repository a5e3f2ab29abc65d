// SPDX-License-Identifier: Apache-2.0
// The loops for AVX-512 (F, BW, DQ, VL).
#include "collectives/reduce_kernels.h"

#if defined(__x86_64__)

// Headers of the standard library come before the choice of the instruction set (reduce_loops.h).
#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,f16c"))), \
                             apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,f16c")
#endif

#include "collectives/reduce_loops.h"

namespace rocecoll {
namespace {

typedef float FloatLanes __attribute__((vector_size(64)));
typedef uint32_t BitLanes __attribute__((vector_size(64)));

template <>
struct BitsOf<FloatLanes> {
  using Type = BitLanes;
};

struct Float16Lanes {
  static constexpr size_t kCount = 16;
  static constexpr size_t kElementSize = 2;

  // Masked forms with all lanes on: g++ 12 warns about its own unmasked ones.
  static FloatLanes Load(const std::byte* from) {
    return reinterpret_cast<FloatLanes>(
        _mm512_maskz_cvtph_ps(0xffff, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from))));
  }
  static void Store(std::byte* to, FloatLanes value) {
    const FloatLanes nan = FloatLanes{} + __builtin_nanf("");
    value = value != value ? nan : value;
    _mm256_storeu_si256(
        reinterpret_cast<__m256i*>(to),
        _mm512_maskz_cvtps_ph(0xffff, reinterpret_cast<__m512>(value), _MM_FROUND_TO_NEAREST_INT));
  }
};

}  // namespace

constinit const KernelTable kAvx512Kernels = MakeKernelTable<LaneLoops<Float16Lanes>>("avx512");

}  // namespace rocecoll

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#endif  // defined(__x86_64__)
