// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace rocecoll {

// CRC32C (Castagnoli, RFC 3720 appendix B.4) of `bytes`, continuing from `previous`, the CRC of the
// bytes before them. Every payload byte is checked twice, so this uses the processor's CRC
// instructions where they exist.
uint32_t Crc32c(std::span<const std::byte> bytes, uint32_t previous = 0);

// One way to compute it.
struct Crc32cKernel {
  std::string_view name;
  uint32_t (*function)(std::span<const std::byte> bytes, uint32_t previous);
};

// The kernels that this processor can run, fastest first; the last uses only tables.
std::vector<Crc32cKernel> UsableCrc32cKernels();

}  // namespace rocecoll
