// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <malloc.h>

#include <cstddef>

namespace rocecoll {

// Room for tables that still settle, far below what one leak a turn comes to.
inline constexpr size_t kNoise = 256 * 1024;

// In use on the heap; zero where a sanitizer keeps it.
inline size_t HeapBytes() { return mallinfo2().uordblks; }

}  // namespace rocecoll
