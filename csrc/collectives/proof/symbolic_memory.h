// SPDX-License-Identifier: Apache-2.0
// The buffers of all ranks, with symbols in place of data, so that the checker can tell what a
// block holds: which contributions, and in which order they were combined.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "collectives/program.h"

namespace rocecoll {

// 64-bit hashes, so that a wrong result passes with a probability of about 2^-64 per block.
struct Symbol {
  uint64_t contributions = 0;  // sum of the hashes of the multiset of contributions
  uint64_t expression = 0;     // hash of the tree of operations with its operand order

  bool defined() const { return expression != 0; }
  bool operator==(const Symbol&) const = default;
};

// A block without elements, where the program's order has none. Only blocks like it may be sent
// there.
inline constexpr Symbol kNothing{0, 2};  // the expressions of other symbols are odd

Symbol Contribution(Rank rank, uint32_t block);
Symbol Combine(const Symbol& left, const Symbol& right);

class SymbolicMemory {
 public:
  // `in_place`: output and input share memory as far as the collective allows it: the whole vector
  // (allreduce, reduce at the root), or the rank's own block in the larger of the two.
  SymbolicMemory(const Program& program, Collective collective, Rank root, bool in_place);

  uint32_t blocks(Rank rank, Buffer buffer) const { return region(rank, buffer).blocks; }
  // A number below size(). It is the same for two blocks that share memory.
  size_t locate(Rank rank, Buffer buffer, uint32_t index) const {
    return region(rank, buffer).first + index;
  }
  size_t size() const { return symbols_.size(); }
  Symbol& operator[](size_t location) { return symbols_[location]; }
  const Symbol& operator[](size_t location) const { return symbols_[location]; }

  // Checks that the outputs hold what the collective promises (for all but the barrier, which moves
  // no data): every contribution exactly once, and the same bits on all ranks that get a sum.
  Status check_result() const;

 private:
  struct Region {
    size_t first = 0;
    uint32_t blocks = 0;
  };

  const Region& region(Rank rank, Buffer buffer) const {
    return regions_[rank * 3 + static_cast<size_t>(buffer)];
  }
  void lay_out(const Program& program);
  void fill();
  Status check_sums() const;
  // What a block of the output must hold in a collective that sums nothing.
  Symbol expected(Rank rank, uint32_t block) const;
  bool is_ordered(Rank rank, Buffer buffer) const {
    return !order_.empty() && blocks(rank, buffer) == order_.size();
  }
  // The number that the collective gives to a block of a vector; kNoRank if it gives none.
  uint32_t number(Rank rank, Buffer buffer, uint32_t index) const {
    return is_ordered(rank, buffer) ? order_[index] : index;
  }

  Collective collective_;
  uint32_t ranks_;
  Rank root_;
  bool in_place_;
  std::span<const Rank> order_;
  std::vector<Region> regions_;  // [rank][buffer]
  std::vector<Symbol> symbols_;
};

}  // namespace rocecoll
