// SPDX-License-Identifier: Apache-2.0
// Where a peer finds one end of a path through shared memory. The control path carries it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "transport/address.h"
#include "transport/fast_paths/shm/host_socket.h"

namespace rocecoll {

// What two processes must have in common to share memory. 0: it could not be read.
struct HostFacts {
  uint64_t boot = 0;     // the boot id of the running kernel
  uint64_t network = 0;  // the network namespace, which abstract sockets are confined to

  static HostFacts Read();
  // Why they cannot share memory. Empty: nothing speaks against it.
  static std::string Obstacle(const HostFacts& own, const HostFacts& peer);
};

struct ShmEnd {
  HostSocketName socket{};
  uint64_t nonce = 0;  // known only to processes that this end has told
  uint64_t slot = 0;   // in its process's doorbell
  HostFacts host;

  Address address() const;
  // None if it is no address of an end.
  static std::optional<ShmEnd> Parse(const Address& address);
};

}  // namespace rocecoll
