// SPDX-License-Identifier: Apache-2.0
// A plan in words, for whoever has to find out what a seed did.
#pragma once

#include <sstream>
#include <string>

#include "swarm/swarm_plan.h"

namespace rocecoll {

inline std::string DescribeRanks(RankSet set) {
  std::string text = "{";
  for (Rank rank = 0; set >> rank != 0; ++rank) {
    if ((set & One(rank)) != 0) text += (text.size() > 1 ? "," : "") + std::to_string(rank);
  }
  return text + "}";
}

inline std::string Describe(const SwarmJob& job) {
  std::ostringstream text;
  if (job.kind == SwarmJob::Kind::kMessages) {
    text << "messages " << DescribeRanks(job.senders) << " to "
         << (job.any_source ? "any-source " : "");
  } else {
    text << ToString(job.collective) << (job.in_place ? " in place" : "")
         << (job.uniform ? "" : " of uneven blocks") << " root ";
  }
  text << job.root << ", " << job.elements << " elements, group " << job.group;
  return text.str();
}

inline std::string Describe(const SwarmFault& fault) {
  constexpr const char* kNames[] = {"storm", "slow",   "narrow", "pause",
                                    "cut",   "refuse", "kill",   "restart"};
  std::ostringstream text;
  text << Seconds(fault.at) << " s + " << Seconds(fault.length)
       << " s: " << kNames[static_cast<size_t>(fault.kind)] << " " << DescribeRanks(fault.from);
  if (fault.kind <= SwarmFault::Kind::kNarrow || fault.kind == SwarmFault::Kind::kCut) {
    text << " to " << DescribeRanks(fault.to);
  }
  if (fault.kind == SwarmFault::Kind::kStorm) text << ", loss " << fault.wire.loss;
  if (fault.kind == SwarmFault::Kind::kSlow) text << ", by " << Seconds(fault.wire.latency) << " s";
  return text.str();
}

inline std::string Describe(const SwarmPlan& plan) {
  std::ostringstream text;
  const SimWire& wire = plan.wire;
  text << "seed " << plan.seed << ": " << plan.ranks << " ranks, " << plan.groups
       << " groups, datagrams of " << plan.port.max_datagram_bytes << ", receive buffer "
       << plan.port.receive_buffer_bytes << ", peer timeout "
       << Seconds(plan.connection.peer_timeout) << " s\n  wire: latency "
       << Microseconds(wire.latency) << " us, " << wire.bytes_per_second << " B/s, queue "
       << wire.queue_bytes << ", loss " << wire.loss << ", duplicate " << wire.duplicate
       << ", reorder " << wire.reorder << ", corrupt " << wire.corrupt << ", MTU " << wire.mtu_bytes
       << "\n  lanes of " << plan.engine.lane_bytes << ", eager " << plan.messenger.eager_bytes
       << " on " << plan.messenger.eager_credits << " credits, depth " << plan.depth
       << ", thinks up to " << Seconds(plan.max_think) << " s" << (plan.warm ? ", warm" : "")
       << "\n";
  if (plan.queue.bytes_per_second > 0) {
    text << "  all share " << plan.queue.bytes_per_second << " B/s and a queue of "
         << plan.queue.buffer_bytes << " bytes, marked above " << plan.queue.mark_above_bytes
         << "\n";
  }
  for (const SwarmFault& fault : plan.faults) text << "  " << Describe(fault) << "\n";
  text << "  healed at " << Seconds(plan.heal_at) << " s\n";
  for (size_t i = 0; i < plan.jobs.size(); ++i) {
    text << "  job " << i << ": " << Describe(plan.jobs[i]) << "\n";
  }
  return text.str();
}

}  // namespace rocecoll
