// SPDX-License-Identifier: Apache-2.0
// Flat programs that go around the ranks host by host, whatever their numbers: what passes along a
// ring then enters and leaves each host once.
#pragma once

#include <cstdint>

#include "collectives/host_layout.h"
#include "collectives/program.h"
#include "collectives/ring.h"

namespace rocecoll {

// `flat` of the places that ranks have in HostLayout::by_host(). Not for programs with a root.
template <Program::StepFunction flat>
Step InHostOrder(const Program& program, Rank rank, uint32_t index) {
  const HostLayout& hosts = *program.hosts;
  Step step = flat(program, hosts.place_of(rank), index);
  step.rename_peers(hosts.by_host());
  return step;
}

template <Program::StepFunction flat>
Program HostRing(Program program, const HostLayout& hosts) {
  program.step_function = InHostOrder<flat>;
  program.blocks = hosts.ranks();
  program.order = hosts.by_host();
  program.hosts = &hosts;
  return program;
}

inline Program HostRingReduceScatter(const ProgramRequest& request) {
  return HostRing<RingReduceScatterStep>(RingReduceScatter(request), *request.hosts);
}
inline Program HostRingAllgather(const ProgramRequest& request) {
  return HostRing<RingAllgatherStep>(RingAllgather(request), *request.hosts);
}

}  // namespace rocecoll
