// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace rocecoll {

// For a thread that spins, between two looks: leaves more of the core to its other hardware thread.
inline void CpuRelax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace rocecoll
