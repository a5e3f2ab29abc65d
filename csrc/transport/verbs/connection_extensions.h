// SPDX-License-Identifier: Apache-2.0
// Enhanced connection establishment (ECE): what two devices of one make can do with each other
// beyond the specification, as to send again no more than what was lost, if both were told before
// they are connected. Both ends of a connection say what they can, and both are told what they have
// in common.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

namespace rocecoll {

// The maker's own numbers. No options: nothing beyond the specification.
struct ConnectionExtensions {
  uint32_t vendor = 0;
  uint32_t options = 0;

  bool any() const { return options != 0; }
  bool operator==(const ConnectionExtensions&) const = default;
};

// None where the device or this system's libibverbs (before 31) has no such.
ConnectionExtensions QueryExtensions(ibv_qp& queue_pair);

ConnectionExtensions InCommon(const ConnectionExtensions& a, const ConnectionExtensions& b);

// To use them, before the queue pair is made ready to receive. 0 or an error of errno.h.
int SetExtensions(ibv_qp& queue_pair, const ConnectionExtensions& extensions);

}  // namespace rocecoll
