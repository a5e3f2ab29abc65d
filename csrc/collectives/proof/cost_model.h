// SPDX-License-Identifier: Apache-2.0
// What a program costs in the usual alpha-beta-gamma model, with the gap of LogGP (Alexandrov et
// al., SPAA 1995) between a rank's messages of one step: every step takes as long as its slowest
// rank. Of that rank's messages in one direction, each one after the first costs a gap instead of a
// latency. Both directions run at once. Copies are free.
#pragma once

#include "collectives/host_layout.h"
#include "collectives/partition.h"
#include "collectives/program.h"

namespace rocecoll {

struct CostParameters {
  double alpha_us = 0;           // for a message
  double gap_us = 0;             // for each further message of the same step
  double beta_ns_per_byte = 0;   // for sending or receiving
  double gamma_ns_per_byte = 0;  // for reducing
};

// UDP on loopback with two cores, where a message consists of processor work only, and UDP on a 25
// Gb/s network of hosts, where the same amount of it is processor work.
inline constexpr CostParameters kLoopbackCost{2.4, 2.4, 0.34, 0.03};
inline constexpr CostParameters kNetworkCost{12, 2.4, 0.33, 0.03};

// Costs for groups in which several ranks share a host, and so its link to the others.
struct HostCosts {
  CostParameters inside;
  CostParameters between;
  const HostLayout* hosts = nullptr;  // null: each rank has a host to itself
};

// Shared memory of two cores.
inline constexpr CostParameters kSharedMemoryCost{1, 1, 0.25, 0.03};

// `vector` cuts the whole vector of the operation (the larger of input and output), in bytes, into
// one block for each rank.
double EstimateCostUs(const Program& program, Collective collective, Rank root,
                      const Partition& vector, const CostParameters& parameters);
double EstimateCostUs(const Program& program, Collective collective, Rank root,
                      const Partition& vector, const HostCosts& costs);

}  // namespace rocecoll
