// SPDX-License-Identifier: Apache-2.0
// Which of the usable ports a process takes, when its host has several. All processes of a host
// come to the same order, and so do hosts that are built alike: local rank i of one host talks to
// local rank i of another over ports of the same place, which is what a network of rails wants.
//
// Each rule keeps the best ports and leaves the others out: those with an address that is routed;
// NICs before programs that play one; the fastest, as a slow one would hold up the whole group;
// those near the process; of the functions of one NIC the physical one. What is left is put in
// order - the entries of the option `hca`, then the address of this host, then names - and dealt to
// the local ranks in turn. Devices that the user has named are fast enough, and NICs enough; where
// there are at least twice as many as local ranks, each rank takes several.
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
  // -- what the rules go by
  std::string device;
  uint32_t port = 1;
  uint32_t speed_gbit_s = 0;
  NicPlace place;
  size_t entry = 0;     // of the option `hca`, smaller is better
  bool routed = false;  // its GID is not link-local
  // Has the host's address; is on its interface; has its family. Larger is better.
  std::tuple<bool, bool, bool> host_merit;
  // -- what they say
  std::optional<size_t> chosen = std::nullopt;  // the process's first port, its second...
  std::string words = "";  // why it is chosen, or for whom it is, or why it is left out
};

struct DealRules {
  uint32_t local_rank = 0;
  uint32_t local_ranks = 0;  // 0: not known
  bool named = false;        // the option `hca` names devices, it does not only exclude some
};

// Marks those that are chosen, one at least, if there is any.
void DealPorts(std::vector<PortCandidate*> candidates, const ProcessPlace& process,
               const DealRules& rules);

}  // namespace rocecoll
