// SPDX-License-Identifier: Apache-2.0
#include "collectives/proof/symbolic_memory.h"

#include <string>

#include "base/random.h"

namespace rocecoll {
namespace {

uint64_t Hash(uint64_t value) { return Random(value).next(); }

Status Wrong(Rank rank, uint32_t block, const std::string& what) {
  return {StatusCode::kInternal, "result: rank " + std::to_string(rank) + ", output block " +
                                     std::to_string(block) + ": " + what};
}

}  // namespace

Symbol Contribution(Rank rank, uint32_t block) {
  const uint64_t hash = Hash((static_cast<uint64_t>(rank) << 32) + block + 1);
  return {hash, Hash(hash) | 1};
}

Symbol Combine(const Symbol& left, const Symbol& right) {
  return {left.contributions + right.contributions,
          Hash(Hash(left.expression) + 3 * right.expression) | 1};
}

SymbolicMemory::SymbolicMemory(const Program& program, Collective collective, Rank root,
                               bool in_place)
    : collective_(collective), ranks_(program.ranks), root_(root), in_place_(in_place) {
  lay_out(program.work_blocks);
  fill();
}

void SymbolicMemory::lay_out(uint32_t work_blocks) {
  regions_.resize(static_cast<size_t>(ranks_) * 3);
  size_t used = 0;
  for (Rank rank = 0; rank < ranks_; ++rank) {
    Region* const regions = &regions_[rank * 3];
    Region& input = regions[static_cast<size_t>(Buffer::kInput)];
    Region& output = regions[static_cast<size_t>(Buffer::kOutput)];
    Region& work = regions[static_cast<size_t>(Buffer::kWork)];
    const bool is_root = rank == root_;
    input.blocks = BlocksIn(Buffer::kInput, collective_, ranks_, is_root);
    output.blocks = BlocksIn(Buffer::kOutput, collective_, ranks_, is_root);
    work.blocks = work_blocks;
    // Scratch never shares memory with anything.
    const bool shares = in_place_ && collective_ != Collective::kAlltoall &&
                        ContentsOf(Buffer::kInput, collective_, is_root) != Contents::kNothing &&
                        ContentsOf(Buffer::kOutput, collective_, is_root) != Contents::kNothing;
    input.first = used;
    output.first = used + (shares ? 0 : input.blocks);
    used = output.first + output.blocks;
    if (shares && input.blocks > output.blocks) {
      output.first = input.first + rank;
      used = input.first + input.blocks;
    } else if (shares && input.blocks < output.blocks) {
      input.first = output.first + rank;
    }
    work.first = used;
    used += work_blocks;
  }
  symbols_.resize(used);
}

void SymbolicMemory::fill() {
  for (Rank rank = 0; rank < ranks_; ++rank) {
    const Buffer buffer =
        GivesOutput(collective_, rank == root_) ? Buffer::kOutput : Buffer::kInput;
    for (uint32_t block = 0; block < blocks(rank, buffer); ++block) {
      symbols_[locate(rank, buffer, block)] = Contribution(rank, block);
    }
  }
}

Status SymbolicMemory::check_result() const {
  if (collective_ == Collective::kBarrier) return {};
  if (Reduces(collective_)) return check_sums();
  for (Rank rank = 0; rank < ranks_; ++rank) {
    for (uint32_t block = 0; block < blocks(rank, Buffer::kOutput); ++block) {
      Symbol expected;
      if (collective_ == Collective::kBroadcast) expected = Contribution(root_, block);
      if (collective_ == Collective::kScatter) expected = Contribution(root_, rank);
      if (collective_ == Collective::kAlltoall) expected = Contribution(block, rank);
      if (collective_ == Collective::kAllgather || collective_ == Collective::kGather) {
        expected = Contribution(block, 0);
      }
      if (symbols_[locate(rank, Buffer::kOutput, block)] != expected) {
        return Wrong(rank, block, "does not hold the block that belongs there");
      }
    }
  }
  return {};
}

Status SymbolicMemory::check_sums() const {
  std::vector<uint64_t> contributions(ranks_, 0);
  for (Rank rank = 0; rank < ranks_; ++rank) {
    for (uint32_t block = 0; block < ranks_; ++block) {
      contributions[block] += Contribution(rank, block).contributions;
    }
  }
  std::vector<uint64_t> expressions(ranks_, 0);
  for (Rank rank = 0; rank < ranks_; ++rank) {
    if (HasScratchOutput(collective_, rank == root_)) continue;
    for (uint32_t index = 0; index < blocks(rank, Buffer::kOutput); ++index) {
      const uint32_t block = TraitsOf(collective_).output == Contents::kBlock ? rank : index;
      const Symbol& symbol = symbols_[locate(rank, Buffer::kOutput, index)];
      if (symbol.contributions != contributions[block]) {
        return Wrong(rank, index, "is not the sum of every rank's contribution, each once");
      }
      if (expressions[block] == 0) expressions[block] = symbol.expression;
      if (symbol.expression != expressions[block]) {
        return Wrong(rank, index, "is summed in another order than on other ranks");
      }
    }
  }
  return {};
}

}  // namespace rocecoll
