// SPDX-License-Identifier: Apache-2.0
// Every collective, algorithm, number of ranks and root that the tests use.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "collectives/host_layout.h"
#include "collectives/selector.h"

namespace rocecoll {

inline constexpr auto kAllCollectives = [] {
  std::array<Collective, kCollectiveTraits.size()> all;
  std::ranges::transform(kCollectiveTraits, all.begin(), &CollectiveTraits::collective);
  return all;
}();

// All roots of small groups, and a few of larger ones.
inline std::vector<Rank> RootsOf(Collective collective, uint32_t ranks) {
  if ((!IsRooted(collective) && !IsPointToPoint(collective)) || ranks == 1) return {0};
  if (ranks > 100) return {0, ranks - 1};
  if (ranks > 9) return {0, 1, ranks / 2, ranks - 1};
  std::vector<Rank> roots;
  for (Rank root = 0; root < ranks; ++root) roots.push_back(root);
  return roots;
}

// Returns nothing if the algorithm is not offered for this number of ranks or these hosts.
inline std::optional<Program> Make(Collective collective, std::string_view name, uint32_t ranks,
                                   Rank root = 0, const HostLayout* hosts = nullptr) {
  const auto program =
      MakeProgram({.collective = collective, .ranks = ranks, .root = root, .hosts = hosts}, name);
  return program.ok() ? std::optional(program.value()) : std::nullopt;
}

struct NamedAlgorithm {
  Collective collective;
  std::string_view name;
};

inline bool KnowsHosts(std::string_view algorithm) { return algorithm.starts_with("host_"); }

// The algorithms that know hosts, or those that do not.
inline std::vector<NamedAlgorithm> Algorithms(bool that_know_hosts) {
  std::vector<NamedAlgorithm> all;
  for (const Collective collective : kAllCollectives) {
    for (const std::string_view name : AlgorithmNames(collective)) {
      if (KnowsHosts(name) == that_know_hosts) all.push_back({collective, name});
    }
  }
  return all;
}

inline std::string TestName(const testing::TestParamInfo<NamedAlgorithm>& info) {
  return std::string(ToString(info.param.collective)) + "_" + std::string(info.param.name);
}

}  // namespace rocecoll
