// SPDX-License-Identifier: Apache-2.0
// Flat programs that go around the ranks host by host, whatever their numbers, so that what passes
// along a ring enters and leaves each host once.
#pragma once

#include <cstdint>

#include "collectives/host_layout.h"
#include "collectives/program.h"
#include "collectives/ring.h"

namespace rocecoll {

// Runs `flat` on the places that ranks have in HostLayout::by_host(). Not for programs with a root.
template <Program::StepFunction flat>
Step InHostOrder(const Program& program, Rank rank, uint32_t index) {
  const HostLayout& hosts = *program.hosts;
  Step step = flat(program, hosts.place_of(rank), index);
  step.rename_peers(hosts.by_host());
  return step;
}

inline Program HostRingReduceScatter(const ProgramRequest& request) {
  return {.steps = request.ranks - 1,
          .work_blocks = request.ranks,
          .step_function = InHostOrder<RingReduceScatterStep>,
          .blocks = request.ranks,
          .order = request.hosts->by_host(),
          .hosts = request.hosts};
}

inline Program HostRingAllgather(const ProgramRequest& request) {
  return {.steps = request.ranks - 1,
          .step_function = InHostOrder<RingAllgatherStep>,
          .blocks = request.ranks,
          .order = request.hosts->by_host(),
          .hosts = request.hosts};
}

}  // namespace rocecoll
