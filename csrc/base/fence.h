// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>

namespace rocecoll {

// Orders this thread's later memory accesses after its earlier ones, including atomic against plain
// ones. GCC warns that ThreadSanitizer does not know fences; the other sides of ours are in other
// processes, where ThreadSanitizer does not look.
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
