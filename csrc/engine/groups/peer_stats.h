// SPDX-License-Identifier: Apache-2.0
// What users are told about one rank of one group that this rank has a link to.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/rank.h"
#include "base/time.h"
#include "transport/path_stats.h"

namespace rocecoll {

struct PeerStats {
  std::string group;
  Rank rank = 0;                // global
  std::string address;          // as every host knows it
  std::optional<Duration> age;  // since something was last heard; none if nothing ever was
  std::vector<PathStats> paths;
};

}  // namespace rocecoll
