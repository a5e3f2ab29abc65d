// SPDX-License-Identifier: Apache-2.0
// Which ranks talk to each other: arithmetic on the circle of ranks, and binomial trees.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "base/rank.h"

namespace rocecoll {

// Blocks::at multiplies two numbers below the rank count in 32 bits.
inline constexpr uint32_t kMaxRanks = 1u << 16;

constexpr bool IsPowerOfTwo(uint32_t n) { return std::has_single_bit(n); }
constexpr uint32_t FloorLog2(uint32_t n) { return std::bit_width(n) - 1; }
constexpr uint32_t CeilLog2(uint32_t n) { return std::bit_width(n - 1); }

// The rank `distance` (at most `ranks`) after or before `rank` on the circle.
constexpr Rank After(Rank rank, uint32_t distance, uint32_t ranks) {
  return (rank + distance) % ranks;
}
constexpr Rank Before(Rank rank, uint32_t distance, uint32_t ranks) {
  return (rank + ranks - distance) % ranks;
}

// The part of a rank at one level of the binomial tree around `root`. With v the distance of the
// rank after the root, the edges of level l join v (a multiple of 2^(l+1)) to its child v + 2^l,
// whose subtree is v + 2^l .. v + 2^(l+1) - 1, cut off at the number of ranks. Data flows down from
// level ceil(log2 p) - 1 to 0, and up from 0.
struct BinomialEdge {
  enum class Role : uint8_t { kNone, kParent, kChild };
  Role role = Role::kNone;
  Rank peer = 0;
  Rank child = 0;             // the first rank of the subtree below the edge
  uint32_t subtree_size = 0;  // the number of ranks child, child + 1, ... on the circle
};

constexpr BinomialEdge BinomialEdgeAt(Rank rank, Rank root, uint32_t ranks, uint32_t level) {
  const uint32_t distance = 1u << level;
  const uint32_t position = Before(rank, root, ranks);
  const uint32_t within = position % (2 * distance);
  if (within == 0 && position + distance < ranks) {
    const Rank child = After(rank, distance, ranks);
    return {BinomialEdge::Role::kParent, child, child,
            std::min(distance, ranks - position - distance)};
  }
  if (within == distance) {
    return {BinomialEdge::Role::kChild, Before(rank, distance, ranks), rank,
            std::min(distance, ranks - position)};
  }
  return {};
}

}  // namespace rocecoll
