// SPDX-License-Identifier: Apache-2.0
#include "collectives/reduce_kernels.h"

#include "collectives/reduce_loops.h"

namespace rocecoll {

constinit const KernelTable kPortableKernels =
    MakeKernelTable<PlainLoops<Float16>>("portable", Formats());

std::vector<const KernelTable*> UsableKernels() {
  std::vector<const KernelTable*> usable;
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c");
  if (avx2) usable.push_back(&kAvx2Kernels);
#endif
  usable.push_back(&kPortableKernels);
  return usable;
}

}  // namespace rocecoll
