// SPDX-License-Identifier: Apache-2.0
// The loops for AVX2 with F16C.
#include "collectives/reduce_kernels.h"

#if defined(__x86_64__)

// Standard library headers must be included before the instruction set is chosen (reduce_loops.h).
#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,f16c"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,f16c")
#endif

#include "collectives/reduce_loops.h"

namespace rocecoll {
namespace {

typedef float FloatLanes __attribute__((vector_size(32)));
typedef uint32_t BitLanes __attribute__((vector_size(32)));

template <>
struct BitsOf<FloatLanes> {
  using Type = BitLanes;
};

struct Float16Lanes {
  static constexpr size_t kCount = 8;
  static constexpr size_t kElementSize = 2;

  static FloatLanes Load(const std::byte* from) {
    return reinterpret_cast<FloatLanes>(
        _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))));
  }
  static void Store(std::byte* to, FloatLanes value) {
    const FloatLanes nan = FloatLanes{} + __builtin_nanf("");
    value = value != value ? nan : value;
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to),
                     _mm256_cvtps_ph(reinterpret_cast<__m256>(value), _MM_FROUND_TO_NEAREST_INT));
  }
};

}  // namespace

constinit const KernelTable kAvx2Kernels =
    MakeKernelTable<LaneLoops<Float16Lanes>>("avx2", Formats());

}  // namespace rocecoll

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#endif  // defined(__x86_64__)
