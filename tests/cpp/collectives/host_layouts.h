// SPDX-License-Identifier: Apache-2.0
// The ways in which the tests put ranks on hosts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/random.h"
#include "collectives/host_layout.h"

namespace rocecoll {

// By rank, the number of its host.
using HostsOfRanks = std::vector<uint32_t>;

inline std::string Text(const HostsOfRanks& hosts) {
  std::string text = "hosts";
  for (const uint32_t host : hosts) text += " " + std::to_string(host);
  return text;
}

// Ranks in order, so many on each host, the rest on the last one.
inline HostsOfRanks InOrder(uint32_t ranks, uint32_t on_a_host) {
  HostsOfRanks hosts;
  for (uint32_t rank = 0; rank < ranks; ++rank) hosts.push_back(rank / on_a_host);
  return hosts;
}

// One rank to each host in turn.
inline HostsOfRanks Dealt(uint32_t ranks, uint32_t hosts) {
  HostsOfRanks result;
  for (uint32_t rank = 0; rank < ranks; ++rank) result.push_back(rank % hosts);
  return result;
}

// Even and uneven, in order, dealt and anyhow; all on one host, and each on its own.
inline std::vector<HostsOfRanks> LayoutsOf(uint32_t ranks) {
  std::vector<HostsOfRanks> layouts = {HostsOfRanks(ranks), Dealt(ranks, ranks)};
  for (const uint32_t number : {2u, 3u, 4u, 8u}) {
    if (number >= ranks) continue;
    layouts.push_back(InOrder(ranks, number));
    layouts.push_back(Dealt(ranks, number));
  }
  if (ranks < 3) return layouts;
  // One rank apart, at either end.
  layouts.emplace_back(ranks, 7);
  layouts.back().front() = 9;
  layouts.emplace_back(ranks, 7);
  layouts.back().back() = 9;
  Random random(ranks);
  for (const uint32_t hosts : {2u, 3u, 5u}) {
    layouts.emplace_back();
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      layouts.back().push_back(static_cast<uint32_t>(random.next() % hosts));
    }
  }
  return layouts;
}

}  // namespace rocecoll
