// SPDX-License-Identifier: Apache-2.0
// Where a peer finds one end of a path through shared memory, as it goes over the control path.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "transport/address.h"
#include "transport/fast_paths/shm/host_socket.h"

namespace rocecoll {

// What two processes must have in common to share memory. 0: could not be read.
struct HostFacts {
  uint64_t boot = 0;     // of the kernel that runs now
  uint64_t network = 0;  // its network namespace: abstract sockets are known within one

  static HostFacts Read();
  // Why they cannot share memory; empty: nothing is known against it.
  static std::string Obstacle(const HostFacts& own, const HostFacts& peer);
};

struct ShmEnd {
  HostSocketName socket{};
  uint64_t nonce = 0;  // who knows it has been told by this end
  uint64_t slot = 0;   // in the process's doorbell
  HostFacts host;

  Address address() const;
  // None: no end can be there.
  static std::optional<ShmEnd> Parse(const Address& address);
};

}  // namespace rocecoll
