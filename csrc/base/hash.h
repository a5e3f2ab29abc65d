// SPDX-License-Identifier: Apache-2.0
// A hash of small keys for tables in memory. Not for keys that an attacker chooses.
#pragma once

#include <cstdint>
#include <initializer_list>

namespace rocecoll {

// Multiplicative mixing with SplitMix64's odd constant, folded so that neighbouring values of any
// word differ in the low bits, too.
constexpr uint64_t HashWords(std::initializer_list<uint64_t> words) {
  uint64_t hash = 0;
  for (const uint64_t word : words) {
    hash = (hash ^ word) * 0x9e3779b97f4a7c15ull;
    hash ^= hash >> 32;
  }
  return hash;
}

}  // namespace rocecoll
