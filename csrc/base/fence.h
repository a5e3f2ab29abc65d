// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>

namespace rocecoll {

// Keeps what this thread does next behind what it has done, also where the one is atomic and the
// other is not. ThreadSanitizer knows no fences, which GCC warns of; the other sides of ours are in
// other processes, where it does not look.
inline void FullFence() {
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wtsan"
#endif
  std::atomic_thread_fence(std::memory_order_seq_cst);
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
}

}  // namespace rocecoll
