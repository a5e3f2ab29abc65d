// SPDX-License-Identifier: Apache-2.0
// No host with several NICs has run this yet: tests deal the ports of made-up machines.
//
// Chooses the port or ports that a process takes if its host has several usable ones. All processes
// of a host come to the same order, and so do hosts that are built alike. So local rank i of one
// host talks to local rank i of another over ports at the same place, as a network of rails
// requires.
//
// Each rule keeps the best ports and leaves the others out. The order of preference is: ports whose
// address is routed; NICs over programs that emulate one; the fastest, because a slow one would
// hold up the whole group; those near the process; among the functions of one NIC, the physical
// one. The remaining ports are sorted by the entries of the option `hca`, then by the address of
// this host, then by name, and dealt to the local ranks in turn. Devices that the user has named
// are kept even if they are slow or are programs, and if there are at least twice as many named
// ports as local ranks, each rank takes several.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "transport/verbs/nic_place.h"

namespace rocecoll {

struct PortCandidate {
  // -- inputs of the rules
  std::string device;
  uint32_t port = 1;
  uint32_t speed_gbit_s = 0;
  NicPlace place;
  size_t entry = 0;     // index in the option `hca`, smaller is better
  bool routed = false;  // its GID is not link-local
  // Whether it has the host's address, is on the interface of that address, and has its family.
  // Larger is better.
  std::tuple<bool, bool, bool> host_merit;
  // -- results of the rules
  std::optional<size_t> chosen = std::nullopt;  // the process's first port, its second...
  std::string words = "";  // why it is chosen, for which rank it is, or why it is left out
};

struct DealRules {
  uint32_t local_rank = 0;
  uint32_t local_ranks = 0;  // 0: not known
  bool named = false;        // the option `hca` names devices and does not only exclude some
};

// Marks the chosen candidates: at least one, if there are any.
void DealPorts(std::vector<PortCandidate*> candidates, const ProcessPlace& process,
               const DealRules& rules);

}  // namespace rocecoll
