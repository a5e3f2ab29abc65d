// SPDX-License-Identifier: Apache-2.0
// From a seed to a plan.
#pragma once

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "swarm/swarm_plan.h"

namespace rocecoll {
namespace swarm {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

// Moved by all jobs of a plan together: a seed takes about a tenth of a second.
inline constexpr uint64_t kBudgetElements = 1500 * 1000;
inline constexpr size_t kLeastMtu = 1200;  // ports promise that every usable path carries it
inline constexpr uint64_t kMaxElements = 150 * 1000;

template <typename T>
inline T Pick(Random& random, std::initializer_list<T> values) {
  return values.begin()[random.below(values.size())];
}

// Evenly among the orders of magnitude.
inline double Between(Random& random, double low, double high) {
  return low * std::pow(high / low, random.uniform());
}
inline Duration Between(Random& random, Duration low, Duration high) {
  return Duration(static_cast<int64_t>(
      Between(random, static_cast<double>(low.count()), static_cast<double>(high.count()))));
}

inline RankSet SomeOf(Random& random, uint32_t ranks) {
  RankSet some = 0;
  while (some == 0 || some == All(ranks)) some = static_cast<RankSet>(random.below(All(ranks) + 1));
  return some;
}

inline void SetMtu(Random& random, SimWire& wire) {
  wire.mtu_bytes = static_cast<size_t>(Between(random, kLeastMtu, 9e3));
  wire.mtu_reported = random.chance(0.5);
}

inline SimWire DrawWire(Random& random) {
  SimWire wire;
  wire.latency = Between(random, microseconds(2), milliseconds(20));
  if (random.chance(0.6)) wire.bytes_per_second = Between(random, 2e7, 5e9);
  wire.queue_bytes = static_cast<size_t>(Between(random, 32e3, 4e6));
  if (random.chance(0.6)) wire.loss = Between(random, 1e-4, 0.1);
  if (random.chance(0.3)) wire.duplicate = Between(random, 1e-3, 0.1);
  if (random.chance(0.4)) wire.reorder = Between(random, 1e-3, 0.3);
  wire.reorder_delay = Between(random, microseconds(10), milliseconds(5));
  if (random.chance(0.2)) SetMtu(random, wire);
  if (random.chance(0.2)) wire.corrupt = Between(random, 1e-4, 0.02);
  return wire;
}

// Slow and shallow enough to overflow, with and without marks before it does.
inline SimQueue DrawQueue(Random& random) {
  SimQueue queue;
  queue.bytes_per_second = Between(random, 5e7, 5e9);
  queue.buffer_bytes = static_cast<size_t>(Between(random, 64e3, 2e6));
  if (random.chance(0.3)) queue.mark_above_bytes = queue.buffer_bytes / 4;
  return queue;
}

inline void DrawProcesses(Random& random, SwarmPlan& plan) {
  plan.ranks = Pick(random, {2u, 2u, 3u, 3u, 4u, 4u, 5u, 6u, 7u, 8u});
  plan.groups = random.chance(0.3) ? 2 : 1;
  plan.port.max_datagram_bytes = Pick<size_t>(random, {600, 1452, 1452, 4096, 8952, 8952});
  plan.port.min_datagram_bytes = std::min(kLeastMtu, plan.port.max_datagram_bytes);
  plan.port.receive_buffer_bytes = Pick<size_t>(random, {100 << 10, 208 << 10, 1 << 20, 4 << 20});
  plan.port.max_burst = Pick<size_t>(random, {1, 16, 64});
  plan.wire = DrawWire(random);
  plan.report_unreachable = random.chance(0.5);
  plan.connection.peer_timeout = Pick<Duration>(random, {seconds(5), seconds(8), seconds(10)});
  plan.connection.frame_queue_bytes = Pick<size_t>(random, {64 << 10, 256 << 10});
  plan.connection.max_pending_writes = Pick(random, {1u, 16u, 256u});
  plan.engine.lane_bytes = Pick<size_t>(random, {16 << 10, 64 << 10, 512 << 10});
  plan.engine.max_lanes_in_flight = Pick(random, {1u, 2u, 8u});
  plan.engine.max_operations_in_flight = Pick(random, {1u, 2u, 8u});
  plan.engine.scratch_bytes = Pick<size_t>(random, {256 << 10, 64 << 20});
  plan.messenger.eager_bytes = Pick<size_t>(random, {0, 0, 8, 256});
  plan.messenger.eager_credits = Pick(random, {1u, 4u, 64u});
  plan.depth = Pick(random, {1u, 2u, 4u, 12u});
  plan.warm = random.chance(0.8);
  plan.max_think = Between(random, microseconds(10), milliseconds(100));
}

inline SwarmJob DrawJob(Random& random, const SwarmPlan& plan, uint64_t budget_elements) {
  SwarmJob job;
  job.group = static_cast<uint32_t>(random.below(plan.groups));
  job.root = static_cast<Rank>(random.below(plan.ranks));
  const uint64_t kinds[] = {0, 1, 1 + random.below(300), 1 + random.below(8000),
                            1 + random.below(kMaxElements)};
  job.elements = std::min(kinds[random.below(std::size(kinds))], budget_elements / plan.ranks);
  if (random.chance(0.35)) {
    job.kind = SwarmJob::Kind::kMessages;
    while (job.senders == 0) {
      job.senders = static_cast<RankSet>(random.below(All(plan.ranks) + 1)) & ~One(job.root);
    }
    job.any_source = random.chance(0.5);
    return job;
  }
  job.collective =
      Pick(random, {Collective::kAllreduce, Collective::kAllreduce, Collective::kReduce,
                    Collective::kReduceScatter, Collective::kBroadcast, Collective::kAllgather,
                    Collective::kGather, Collective::kScatter, Collective::kAlltoall,
                    Collective::kBarrier});
  const bool may_be_in_place =
      job.collective == Collective::kAllreduce || job.collective == Collective::kReduce;
  job.in_place = may_be_in_place && random.chance(0.4);
  const bool may_differ = job.collective == Collective::kGather ||
                          job.collective == Collective::kScatter ||
                          job.collective == Collective::kAlltoall;
  job.uniform = !(may_differ && random.chance(0.5));
  job.part_elements = 1 + job.elements / (4 * plan.ranks);
  return job;
}

inline void DrawJobs(Random& random, SwarmPlan& plan) {
  uint64_t budget = kBudgetElements;
  for (uint64_t left = 1 + random.below(30); left > 0; --left) {
    plan.jobs.push_back(DrawJob(random, plan, budget));
    budget -= plan.jobs.back().elements * plan.ranks;
  }
}

// `limit`: of what keeps a rank from hearing another.
inline SwarmFault DrawFault(Random& random, const SwarmPlan& plan, Duration limit, bool may_kill) {
  using Kind = SwarmFault::Kind;
  SwarmFault fault;
  fault.kind = Pick(random, {Kind::kStorm, Kind::kSlow, Kind::kNarrow, Kind::kPause, Kind::kPause,
                             Kind::kCut, Kind::kCut, Kind::kRefuse});
  if (may_kill && random.chance(0.4)) fault.kind = Pick(random, {Kind::kKill, Kind::kRestart});
  fault.length = std::min(Between(random, milliseconds(1), seconds(20)), limit);
  fault.from = SomeOf(random, plan.ranks);
  fault.to = All(plan.ranks) & ~fault.from;
  switch (fault.kind) {
    case Kind::kStorm:
      fault.wire.loss = Between(random, 0.01, 0.5);
      fault.wire.reorder = Between(random, 0.01, 0.5);
      fault.wire.duplicate = Between(random, 0.01, 0.3);
      fault.wire.corrupt = Between(random, 0.001, 0.1);
      fault.length = std::min<Duration>(fault.length, seconds(1));
      break;
    case Kind::kSlow:
      fault.wire.latency = Between(random, milliseconds(1), milliseconds(300));
      fault.length = std::min<Duration>(fault.length, seconds(3));
      break;
    case Kind::kNarrow:
      SetMtu(random, fault.wire);
      break;
    case Kind::kPause:
      if (random.chance(0.3)) fault.from = All(plan.ranks);
      break;
    case Kind::kCut:
      if (random.chance(0.3)) fault.from = One(static_cast<Rank>(random.below(plan.ranks)));
      fault.to = All(plan.ranks) & ~fault.from;
      break;
    case Kind::kRefuse:
      break;
    case Kind::kKill:
    case Kind::kRestart:
      fault.from = One(static_cast<Rank>(random.below(plan.ranks)));
      break;
  }
  return fault;
}

// In most plans no group may end: what keeps ranks apart is, all together, shorter than what they
// take for a death. In the others anything goes.
inline void DrawFaults(Random& random, SwarmPlan& plan) {
  const bool harmless = random.chance(0.6);
  const Duration span = Between(random, milliseconds(1), seconds(3));
  Duration limit = harmless ? plan.connection.peer_timeout - seconds(2) : Duration(seconds(20));
  RankSet dead = 0;
  for (uint64_t left = random.below(6); left > 0 && limit > Duration(milliseconds(1)); --left) {
    SwarmFault fault = DrawFault(random, plan, limit, !harmless);
    if (fault.kind == SwarmFault::Kind::kKill || fault.kind == SwarmFault::Kind::kRestart) {
      if ((dead & fault.from) != 0) continue;
      dead |= fault.from;
    }
    fault.at = Duration(static_cast<int64_t>(random.below(static_cast<uint64_t>(span.count()))));
    if (harmless) limit -= fault.length;
    plan.heal_at = std::max(plan.heal_at, fault.at + fault.length);
    // A cut in one direction is often one in both.
    const bool both = fault.kind == SwarmFault::Kind::kCut && random.chance(0.6);
    plan.faults.push_back(fault);
    if (!both) continue;
    std::swap(fault.from, fault.to);
    plan.faults.push_back(fault);
  }
  plan.heal_at += Duration(static_cast<int64_t>(random.below(1'000'000'000)));
}

}  // namespace swarm

inline SwarmPlan DrawPlan(uint64_t seed) {
  Random random(seed);
  SwarmPlan plan;
  plan.seed = seed;
  swarm::DrawProcesses(random, plan);
  swarm::DrawJobs(random, plan);
  swarm::DrawFaults(random, plan);
  plan.engine.max_idle_tag_runs = swarm::Pick<size_t>(random, {0, 0, 1, 1024});
  // Where a narrower or a signed counter would wrap.
  plan.connection.first_number =
      swarm::Pick<uint64_t>(random, {0, (1ull << 32) - 8, (1ull << 63) - 8});
  plan.engine.first_number = swarm::Pick<uint64_t>(random, {0, (1ull << 31) - 2, (1ull << 32) - 2});
  if (random.chance(0.25)) plan.queue = swarm::DrawQueue(random);
  return plan;
}

}  // namespace rocecoll
