// SPDX-License-Identifier: Apache-2.0
#include "collectives/proof/symbolic_memory.h"

#include <algorithm>
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
    : collective_(collective),
      ranks_(program.ranks),
      root_(root),
      in_place_(in_place),
      order_(program.order) {
  lay_out(program);
  fill();
}

void SymbolicMemory::lay_out(const Program& program) {
  const auto own_block = [&program](Rank rank) {
    const auto found = std::ranges::find(program.order, rank);
    return program.order.empty() ? rank : static_cast<uint32_t>(found - program.order.begin());
  };
  regions_.resize(static_cast<size_t>(ranks_) * 3);
  size_t used = 0;
  for (Rank rank = 0; rank < ranks_; ++rank) {
    Region* const regions = &regions_[rank * 3];
    Region& input = regions[static_cast<size_t>(Buffer::kInput)];
    Region& output = regions[static_cast<size_t>(Buffer::kOutput)];
    Region& work = regions[static_cast<size_t>(Buffer::kWork)];
    const bool is_root = rank == root_;
    input.blocks = BlocksIn(Buffer::kInput, collective_, program.blocks, is_root);
    output.blocks = BlocksIn(Buffer::kOutput, collective_, program.blocks, is_root);
    work.blocks = program.work_blocks;
    // Scratch never shares memory with anything.
    const bool shares = in_place_ && collective_ != Collective::kAlltoall &&
                        ContentsOf(Buffer::kInput, collective_, is_root) != Contents::kNothing &&
                        ContentsOf(Buffer::kOutput, collective_, is_root) != Contents::kNothing;
    input.first = used;
    output.first = used + (shares ? 0 : input.blocks);
    used = output.first + output.blocks;
    if (shares && input.blocks > output.blocks) {
      output.first = input.first + own_block(rank);
      used = input.first + input.blocks;
    } else if (shares && input.blocks < output.blocks) {
      input.first = output.first + own_block(rank);
    }
    work.first = used;
    used += work.blocks;
  }
  symbols_.resize(used);
}

void SymbolicMemory::fill() {
  for (Rank rank = 0; rank < ranks_; ++rank) {
    const Buffer given = GivesOutput(collective_, rank == root_) ? Buffer::kOutput : Buffer::kInput;
    for (const Buffer buffer : {Buffer::kInput, Buffer::kOutput}) {
      for (uint32_t index = 0; index < blocks(rank, buffer); ++index) {
        const uint32_t block = number(rank, buffer, index);
        Symbol& symbol = symbols_[locate(rank, buffer, index)];
        if (block == kNoRank) {
          symbol = kNothing;
        } else if (buffer == given) {
          symbol = Contribution(rank, block);
        }
      }
    }
  }
}

Symbol SymbolicMemory::expected(Rank rank, uint32_t block) const {
  if (block == kNoRank) return kNothing;
  switch (collective_) {
    case Collective::kBroadcast:
      return Contribution(root_, block);
    case Collective::kScatter:
      return Contribution(root_, rank);
    case Collective::kAlltoall:
      return Contribution(block, rank);
    case Collective::kAllgather:
    case Collective::kGather:
      return Contribution(block, 0);
    default:
      return {};
  }
}

Status SymbolicMemory::check_result() const {
  if (collective_ == Collective::kBarrier) return {};
  if (Reduces(collective_)) return check_sums();
  for (Rank rank = 0; rank < ranks_; ++rank) {
    for (uint32_t index = 0; index < blocks(rank, Buffer::kOutput); ++index) {
      const uint32_t block = number(rank, Buffer::kOutput, index);
      if (symbols_[locate(rank, Buffer::kOutput, index)] != expected(rank, block)) {
        return Wrong(rank, index, "does not hold the block that belongs there");
      }
    }
  }
  return {};
}

Status SymbolicMemory::check_sums() const {
  // The blocks of a vector that we cut, or one for each rank.
  const uint32_t sums =
      TraitsOf(collective_).output == Contents::kBlock ? ranks_ : blocks(root_, Buffer::kOutput);
  std::vector<uint64_t> contributions(sums, 0);
  for (Rank rank = 0; rank < ranks_; ++rank) {
    for (uint32_t block = 0; block < sums; ++block) {
      contributions[block] += Contribution(rank, block).contributions;
    }
  }
  std::vector<uint64_t> expressions(sums, 0);
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
