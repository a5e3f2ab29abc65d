// SPDX-License-Identifier: Apache-2.0
// What algorithms cost according to the papers (docs/algorithms.md).
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/arithmetic.h"
#include "collectives/proof/cost_model.h"
#include "collectives/topology.h"

namespace rocecoll {

struct ClosedForm {
  Collective collective;
  std::string_view name;
  double steps = 0;
  double vectors_moved = 0;     // bytes, in units of the whole vector
  double vectors_reduced = 0;   // in the same unit
  double further_messages = 0;  // messages after the first of their step

  double us(uint64_t bytes, const CostParameters& cost) const {
    const double kilobytes = static_cast<double>(bytes) / 1e3;  // times ns/B: us
    return steps * cost.alpha_us + further_messages * cost.gap_us +
           kilobytes * vectors_moved * cost.beta_ns_per_byte +
           kilobytes * vectors_reduced * cost.gamma_ns_per_byte;
  }
};

// `ranks` must be a power of two, and the bytes a multiple of it.
inline std::vector<ClosedForm> ClosedForms(uint32_t ranks) {
  using enum Collective;
  const double rounds = CeilLog2(ranks);
  const double linear = ranks - 1;
  const double part = linear / ranks;
  const double roots = CeilDivide(ranks - 1, 15);    // steps of a root that sends to all ranks
  const double everyone = CeilDivide(ranks - 1, 7);  // steps if every rank does
  return {
      {kAllreduce, "recursive_doubling", rounds, rounds, rounds},
      {kAllreduce, "halving_doubling", 2 * rounds, 2 * part, part},
      {kAllreduce, "circulant", 2 * rounds, 2 * part, part},
      {kAllreduce, "ring", 2 * linear, 2 * part, part},
      {kReduceScatter, "circulant", rounds, part, part},
      {kReduceScatter, "ring", linear, part, part},
      {kAllgather, "circulant", rounds, part, 0},
      {kAllgather, "ring", linear, part, 0},
      {kBroadcast, "binomial", rounds, rounds, 0},
      {kBroadcast, "scatter_allgather", 2 * rounds, 2 * part, 0},
      {kBroadcast, "chain", linear, linear, 0},
      {kReduce, "binomial", rounds, rounds, rounds},
      {kReduce, "reduce_scatter_gather", 2 * rounds, 2 * part, part},
      {kGather, "binomial", rounds, part, 0},
      {kScatter, "binomial", rounds, part, 0},
      {kScatter, "linear", roots, part, 0, linear - roots},
      {kAlltoall, "bruck", rounds, rounds / 2, 0},
      {kAlltoall, "pairwise", everyone, part, 0, linear - everyone},
      {kBarrier, "dissemination", rounds, rounds / ranks, 0},  // a block each, if there is data
  };
}

}  // namespace rocecoll
