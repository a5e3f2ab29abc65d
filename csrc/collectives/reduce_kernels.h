// SPDX-License-Identifier: Apache-2.0
// The same loops compiled for several instruction sets. All of them produce the same bits.
//
// AVX2 without FMA is the widest set used: sums already run at the speed of the L2 cache, and
// AVX-512 brings fused multiply-add, into which g++ 12 contracts complex products even under
// -ffp-contract=off.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "collectives/data_type.h"

namespace rocecoll {

using ReduceKernel = void (*)(const std::byte* left, const std::byte* right, std::byte* out,
                              size_t count);
using ScaleKernel = void (*)(std::byte* data, double factor, size_t count);
using DivideKernel = void (*)(std::byte* data, uint32_t divisor, size_t count);

// A kernel is null if the operation has no meaning for the type.
struct KernelTable {
  std::string_view name;
  ReduceKernel reduce[kDataTypes][kReduceOps];
  ScaleKernel scale[kDataTypes];
  DivideKernel divide[kDataTypes];
};

extern const KernelTable kPortableKernels;
#if defined(__x86_64__)
extern const KernelTable kAvx2Kernels;
#endif

// The tables that this processor can run: the fastest first, the portable one last.
std::vector<const KernelTable*> UsableKernels();

}  // namespace rocecoll
