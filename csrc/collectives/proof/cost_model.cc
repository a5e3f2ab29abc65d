// SPDX-License-Identifier: Apache-2.0
#include "collectives/proof/cost_model.h"

#include <algorithm>

namespace rocecoll {
namespace {

class CostModel {
 public:
  CostModel(const Program& program, Collective collective, Rank root, const Partition& vector)
      : program_(program), collective_(collective), root_(root), vector_(vector) {
    ROCECOLL_CHECK(vector.blocks() == program.ranks);
  }

  double step_us(Rank rank, uint32_t index, const CostParameters& parameters) const {
    uint64_t sends = 0, receives = 0, sent = 0, received = 0, reduced = 0;
    for (const Transfer& transfer : program_.step(rank, index)) {
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
    if (blocks.count == vector_.blocks() && available == blocks.count) return vector_.total();
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < blocks.count; ++i) {
      bytes += block_bytes(rank, blocks.buffer, blocks.at(i, available), available);
    }
    return bytes;
  }
  uint64_t block_bytes(Rank rank, Buffer buffer, uint32_t index, uint32_t available) const {
    if (buffer == Buffer::kWork && !Reduces(collective_)) return vector_.max_block();
    return vector_.block(available == 1 ? rank : index).count;
  }

  const Program& program_;
  const Collective collective_;
  const Rank root_;
  const Partition& vector_;
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
