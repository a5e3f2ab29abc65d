// SPDX-License-Identifier: Apache-2.0
// No NIC has run this yet. Soft-RoCE has no extensions, so the tests emulate the calls of
// libibverbs.
//
// Enhanced connection establishment (ECE): two devices of one vendor may support more between each
// other than the specification requires, such as retransmitting only the packets that were lost, if
// both are told before they are connected. Each end of a connection announces what its device
// supports, and both devices are told what they have in common.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

namespace rocecoll {

// The vendor defines the meaning of the numbers. No options: nothing beyond the specification.
struct ConnectionExtensions {
  uint32_t vendor = 0;
  uint32_t options = 0;

  bool any() const { return options != 0; }
  bool operator==(const ConnectionExtensions&) const = default;
};

// Empty if the device has none, or the system's libibverbs cannot tell (before version 31).
ConnectionExtensions QueryExtensions(ibv_qp& queue_pair);

ConnectionExtensions InCommon(const ConnectionExtensions& a, const ConnectionExtensions& b);

// Makes the queue pair use the extensions. Must be called before it is made ready to receive.
// Returns 0 or an error of errno.h.
int SetExtensions(ibv_qp& queue_pair, const ConnectionExtensions& extensions);

}  // namespace rocecoll
