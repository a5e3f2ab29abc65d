// SPDX-License-Identifier: Apache-2.0
#include "collectives/proof/cost_model.h"

#include <algorithm>
#include <vector>

namespace rocecoll {
namespace {

class CostModel {
 public:
  CostModel(const Program& program, Collective collective, Rank root, const Partition& vector)
      : program_(program), collective_(collective), root_(root), max_block_(vector.max_block()) {
    ROCECOLL_CHECK(vector.blocks() == program.ranks);
    before_.reserve(program.ranks + size_t{1});
    before_.push_back(0);
    for (uint32_t i = 0; i < program.ranks; ++i)
      before_.push_back(before_.back() + vector.block(i).count);
  }

  double step_us(Rank rank, uint32_t index, const CostParameters& parameters) const {
    uint64_t sends = 0, receives = 0, sent = 0, received = 0, reduced = 0;
    for (const Transfer& transfer : program_.step(rank, index)) {
      if (transfer.kind == Transfer::Kind::kCopy) continue;
      const uint64_t bytes = bytes_of(rank, transfer.blocks);
      switch (transfer.kind) {
        case Transfer::Kind::kSend:
          ++sends;
          sent += bytes;
          break;
        case Transfer::Kind::kRecvReduce:
          reduced += bytes;
          [[fallthrough]];
        case Transfer::Kind::kRecv:
          ++receives;
          received += bytes;
          break;
        case Transfer::Kind::kCopy:
          break;
      }
    }
    const auto moved = static_cast<double>(std::max(sent, received));
    return parameters.alpha_us * static_cast<double>(std::max(sends, receives)) +
           (parameters.beta_ns_per_byte * moved +
            parameters.gamma_ns_per_byte * static_cast<double>(reduced)) /
               1e3;
  }

 private:
  uint64_t bytes_of(Rank rank, const Blocks& blocks) const {
    const uint32_t available =
        blocks.buffer == Buffer::kWork
            ? program_.work_blocks
            : BlocksIn(blocks.buffer, collective_, program_.ranks, rank == root_);
    // A whole vector, whatever the sizes of its blocks.
    if (blocks.count == program_.ranks && available == blocks.count) return before_.back();
    if (blocks.buffer == Buffer::kWork && !Reduces(collective_)) return blocks.count * max_block_;
    if (available == 1) return blocks.count * block_bytes(rank);
    ROCECOLL_CHECK(available == program_.ranks);
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < blocks.count; i += blocks.run) {
      const uint32_t length = std::min(blocks.run, blocks.count - i);
      bytes += run_bytes(blocks.at(i, available), length);
    }
    return bytes;
  }
  uint64_t block_bytes(uint32_t index) const { return before_[index + 1] - before_[index]; }
  // Blocks first, first + 1, ... around the end of the vector.
  uint64_t run_bytes(uint32_t first, uint32_t count) const {
    const uint32_t until = first + count;
    if (until <= program_.ranks) return before_[until] - before_[first];
    return before_.back() - before_[first] + before_[until - program_.ranks];
  }

  const Program& program_;
  const Collective collective_;
  const Rank root_;
  const uint64_t max_block_;
  std::vector<uint64_t> before_;  // bytes before each block, and of all
};

}  // namespace

double EstimateCostUs(const Program& program, Collective collective, Rank root,
                      const Partition& vector, const CostParameters& parameters) {
  const CostModel model(program, collective, root, vector);
  double total_us = 0;
  for (uint32_t index = 0; index < program.steps; ++index) {
    double slowest_us = 0;
    for (Rank rank = 0; rank < program.ranks; ++rank) {
      slowest_us = std::max(slowest_us, model.step_us(rank, index, parameters));
    }
    total_us += slowest_us;
  }
  return total_us;
}

}  // namespace rocecoll
