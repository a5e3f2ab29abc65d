// SPDX-License-Identifier: Apache-2.0
// The ways in which the tests distribute ranks over hosts.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "collectives/host_layout.h"

namespace rocecoll {

// The number of each rank's host.
using HostsOfRanks = std::vector<uint32_t>;

inline std::string Text(const HostsOfRanks& hosts) {
  std::string text = "hosts";
  for (const uint32_t host : hosts) text += " " + std::to_string(host);
  return text;
}

// Ranks in order, `on_a_host` on each host and the rest on the last one.
inline HostsOfRanks InOrder(uint32_t ranks, uint32_t on_a_host) {
  HostsOfRanks hosts;
  for (uint32_t rank = 0; rank < ranks; ++rank) hosts.push_back(rank / on_a_host);
  return hosts;
}

// Deals the ranks to the hosts in turn, one at a time.
inline HostsOfRanks Dealt(uint32_t ranks, uint32_t hosts) {
  HostsOfRanks result;
  for (uint32_t rank = 0; rank < ranks; ++rank) result.push_back(rank % hosts);
  return result;
}

// Hosts with these numbers of ranks, in order or shuffled.
inline HostsOfRanks OfSizes(const std::vector<uint32_t>& sizes) {
  HostsOfRanks hosts;
  for (uint32_t host = 0; host < sizes.size(); ++host) hosts.insert(hosts.end(), sizes[host], host);
  return hosts;
}
inline HostsOfRanks Shuffled(HostsOfRanks hosts, uint64_t seed) {
  Random random(seed);
  for (size_t left = hosts.size(); left > 1; --left) {
    std::swap(hosts[left - 1], hosts[random.next() % left]);
  }
  return hosts;
}

// Hosts of very different sizes: a last node with fewer ranks, one rank beside many, and sizes that
// double or grow slowly.
inline std::vector<std::vector<uint32_t>> UnevenSizes() {
  return {{4, 3},
          {8, 8, 4},
          {4, 8, 8},
          {8, 1},
          {1, 9},
          {2, 64},
          {40, 3},
          {8, 8, 1, 1, 1},
          {1, 1, 30, 1, 1},
          {5, 1, 5, 1, 5},
          {4, 8, 16, 32},
          {1, 2, 4, 8, 16, 32},
          {32, 16, 8, 4, 2, 1},
          {3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13},
          {8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 5},
          {2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 3}};
}

// Even and uneven layouts, in order, dealt and shuffled; all ranks on one host, and each on its
// own.
inline std::vector<HostsOfRanks> LayoutsOf(uint32_t ranks) {
  std::vector<HostsOfRanks> layouts = {HostsOfRanks(ranks), Dealt(ranks, ranks)};
  for (const uint32_t number : {2u, 3u, 4u, 8u}) {
    if (number >= ranks) continue;
    layouts.push_back(InOrder(ranks, number));
    layouts.push_back(Dealt(ranks, number));
  }
  if (ranks < 3) return layouts;
  // All ranks on one host, except for one at either end.
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
