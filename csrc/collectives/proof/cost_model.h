// SPDX-License-Identifier: Apache-2.0
// What a program costs in the usual alpha-beta-gamma model, with the gap of LogGP (Alexandrov et
// al., SPAA 1995) between a rank's messages of one step: every step takes as long as its slowest
// rank, of whose messages in one direction each further one costs a gap, not a latency, and both
// directions run at once. Copies are free.
#pragma once

#include "collectives/host_layout.h"
#include "collectives/partition.h"
#include "collectives/program.h"

namespace rocecoll {

struct CostParameters {
  double alpha_us = 0;           // a message
  double gap_us = 0;             // each further one of the same step
  double beta_ns_per_byte = 0;   // sending or receiving
  double gamma_ns_per_byte = 0;  // reducing
};

// UDP on loopback, two cores, where a message is all a processor's work; and UDP on a 25 Gb/s
// network of hosts, where that much of it is.
inline constexpr CostParameters kLoopbackCost{2.4, 2.4, 0.34, 0.03};
inline constexpr CostParameters kNetworkCost{12, 2.4, 0.33, 0.03};

// Of ranks of which several share a host, and so its link to the others.
struct HostCosts {
  CostParameters inside;
  CostParameters between;
  const HostLayout* hosts = nullptr;  // null: each rank has a host for itself
};

// Two cores' shared memory.
inline constexpr CostParameters kSharedMemoryCost{1, 1, 0.25, 0.03};

// `vector` cuts the whole vector of the operation (the larger of input and output) into one block a
// rank, in bytes.
double EstimateCostUs(const Program& program, Collective collective, Rank root,
                      const Partition& vector, const CostParameters& parameters);
double EstimateCostUs(const Program& program, Collective collective, Rank root,
                      const Partition& vector, const HostCosts& costs);

}  // namespace rocecoll
