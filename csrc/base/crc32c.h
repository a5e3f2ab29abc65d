// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace rocecoll {

// CRC32C (Castagnoli, RFC 3720 appendix B.4) of `bytes`, continuing from `previous`, the CRC of
// the bytes before them. Every payload byte passes this twice, so it uses the CPU's instructions
// where they exist.
uint32_t Crc32c(std::span<const std::byte> bytes, uint32_t previous = 0);

// The same by tables alone: what a CPU without the instructions runs, and what tests compare with.
uint32_t Crc32cPortable(std::span<const std::byte> bytes, uint32_t previous = 0);

}  // namespace rocecoll
