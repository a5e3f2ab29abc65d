// SPDX-License-Identifier: Apache-2.0
// The networks that attempts run over, and how long they may take.
#pragma once

#include <string>
#include <vector>

#include "base/time.h"
#include "transport/sim/sim_network.h"

namespace rocecoll {

struct EpochWire {
  std::string name;
  SimWire wire;
};

inline std::vector<EpochWire> EpochWires() {
  return {
      {"clean", {}},
      {"5 % loss", {.loss = 0.05}},
      {"5 % loss, duplicates, reordering",
       {.loss = 0.05, .duplicate = 0.1, .reorder = 0.2, .reorder_delay = std::chrono::seconds(1)}}};
}

// Of the barrier of an attempt; a third of the time after which a silent rank counts as lost.
inline constexpr Duration kAttemptTime = std::chrono::seconds(3);
// Until all have answered, or not, who has called a barrier that is late, and all know it.
inline constexpr Duration kTellingTime = std::chrono::milliseconds(500);

}  // namespace rocecoll
