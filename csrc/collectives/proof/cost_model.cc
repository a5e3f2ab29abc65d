// SPDX-License-Identifier: Apache-2.0
#include "collectives/proof/cost_model.h"

#include <algorithm>
#include <vector>

namespace rocecoll {
namespace {

class CostModel {
 public:
  CostModel(const Program& program, Collective collective, Rank root, const Partition& vector)
      : program_(program),
        collective_(collective),
        root_(root),
        vector_(vector),
        max_block_(vector.max_block()) {
    ROCECOLL_CHECK(vector.blocks() == program.ranks);
    const Partition cut = program.blocks == program.ranks || !program.order.empty()
                              ? vector.ordered(program.order)
                              : vector.recut(program.blocks);
    before_.reserve(cut.blocks() + size_t{1});
    before_.push_back(0);
    for (uint32_t i = 0; i < cut.blocks(); ++i)
      before_.push_back(before_.back() + cut.block(i).count);
  }

  // Traffic between hosts or inside them; without a layout every rank has a host to itself.
  struct Traffic {
    uint64_t sends = 0, receives = 0, sent = 0, received = 0;
    // The slowest of a host's ranks, apart from their bytes on the host's link.
    double slowest_us = 0;

    double alpha_us(const CostParameters& p) const {
      const uint64_t messages = std::max(sends, receives);
      return messages == 0 ? 0 : p.alpha_us + p.gap_us * static_cast<double>(messages - 1);
    }
    double beta_us(const CostParameters& p) const {
      return p.beta_ns_per_byte * static_cast<double>(std::max(sent, received)) / 1e3;
    }
  };
  struct RankStep {
    Traffic inside, between;
    uint64_t reduced = 0;
  };

  RankStep step_of(Rank rank, uint32_t index, const HostLayout* hosts) const {
    RankStep result;
    for (const Transfer& transfer : program_.step(rank, index)) {
      if (transfer.kind == Transfer::Kind::kCopy) continue;
      const bool local = hosts != nullptr && hosts->host_of(rank) == hosts->host_of(transfer.peer);
      Traffic& traffic = local ? result.inside : result.between;
      const uint64_t bytes = bytes_of(rank, transfer.blocks);
      const bool sends = transfer.kind == Transfer::Kind::kSend;
      (sends ? traffic.sends : traffic.receives) += 1;
      (sends ? traffic.sent : traffic.received) += bytes;
      if (transfer.kind == Transfer::Kind::kRecvReduce) result.reduced += bytes;
    }
    return result;
  }

 private:
  uint64_t bytes_of(Rank rank, const Blocks& blocks) const {
    const uint32_t available =
        blocks.buffer == Buffer::kWork
            ? program_.work_blocks
            : BlocksIn(blocks.buffer, collective_, program_.blocks, rank == root_);
    // A whole vector, whatever the sizes of its blocks are.
    if (blocks.count == program_.blocks && available == blocks.count) return before_.back();
    if (blocks.buffer == Buffer::kWork && !Reduces(collective_)) return blocks.count * max_block_;
    if (available == 1) return blocks.count * vector_.block(rank).count;
    ROCECOLL_CHECK(available == program_.blocks);
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < blocks.count; i += blocks.run) {
      const uint32_t length = std::min(blocks.run, blocks.count - i);
      bytes += run_bytes(blocks.at(i, available), length);
    }
    return bytes;
  }
  // The bytes of blocks first, first + 1, ... in cyclic order.
  uint64_t run_bytes(uint32_t first, uint32_t count) const {
    const uint32_t until = first + count;
    if (until <= program_.blocks) return before_[until] - before_[first];
    return before_.back() - before_[first] + before_[until - program_.blocks];
  }

  const Program& program_;
  const Collective collective_;
  const Rank root_;
  const Partition vector_;
  const uint64_t max_block_;
  std::vector<uint64_t> before_;  // the bytes before each block; the last element is the total
};

}  // namespace

double EstimateCostUs(const Program& program, Collective collective, Rank root,
                      const Partition& vector, const CostParameters& parameters) {
  return EstimateCostUs(program, collective, root, vector,
                        HostCosts{.inside = parameters, .between = parameters});
}

double EstimateCostUs(const Program& program, Collective collective, Rank root,
                      const Partition& vector, const HostCosts& costs) {
  const CostModel model(program, collective, root, vector);
  const uint32_t hosts = costs.hosts == nullptr ? program.ranks : costs.hosts->hosts();
  double total_us = 0;
  for (uint32_t index = 0; index < program.steps; ++index) {
    double slowest_us = 0;
    std::vector<CostModel::Traffic> links(hosts);
    for (Rank rank = 0; rank < program.ranks; ++rank) {
      const CostModel::RankStep step = model.step_of(rank, index, costs.hosts);
      CostModel::Traffic& link = links[costs.hosts == nullptr ? rank : costs.hosts->host_of(rank)];
      link.sent += step.between.sent;
      link.received += step.between.received;
      const double us = step.inside.alpha_us(costs.inside) + step.inside.beta_us(costs.inside) +
                        step.between.alpha_us(costs.between) +
                        costs.between.gamma_ns_per_byte * static_cast<double>(step.reduced) / 1e3;
      link.slowest_us = std::max(link.slowest_us, us);
    }
    for (const CostModel::Traffic& link : links) {
      slowest_us = std::max(slowest_us, link.slowest_us + link.beta_us(costs.between));
    }
    total_us += slowest_us;
  }
  return total_us;
}

}  // namespace rocecoll
