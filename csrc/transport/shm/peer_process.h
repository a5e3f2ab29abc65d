// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <utility>

#include "base/descriptor.h"
#include "transport/shm/doorbell.h"
#include "transport/shm/host_socket.h"

namespace rocecoll {

// Another process of this host, for all paths to it.
struct PeerProcess {
  PeerProcess(const HostSocketName& n, pid_t p, PeerDoorbell bell, Descriptor pidfd)
      : name(n), process(p), doorbell(std::move(bell)), end(std::move(pidfd)) {}

  const HostSocketName name;
  const pid_t process;  // 0: cannot be seen from here
  PeerDoorbell doorbell;
  Descriptor end;  // readable once the process has ended (pidfd_open(2)); none: not known
  bool ended = false;
};

}  // namespace rocecoll
