// SPDX-License-Identifier: Apache-2.0
// Runs what a seed stands for and says what was wrong.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "swarm/swarm_plan.h"

namespace rocecoll {

struct SwarmResult {
  std::vector<std::string> errors;
  uint64_t trace = 0;  // the same for the same seed
  Duration virtual_time{0};
  uint64_t packets = 0;
  uint64_t parts_done = 0;  // with the right results
  bool failed = false;      // a group ended, which it was allowed to
};

SwarmResult RunPlan(const SwarmPlan& plan);

}  // namespace rocecoll
