// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <poll.h>
#include <sys/types.h>

#include <utility>

#include "base/descriptor.h"
#include "transport/fast_paths/shm/doorbell.h"
#include "transport/fast_paths/shm/host_socket.h"

namespace rocecoll {

// Another process of this host. All paths to it share one.
struct PeerProcess {
  static constexpr char kEnded[] = "its process has ended";

  PeerProcess(const HostSocketName& n, pid_t p, PeerDoorbell bell, Descriptor pidfd)
      : name(n), process(p), doorbell(std::move(bell)), end(std::move(pidfd)) {}

  // Whether it has ended by now, even if the device has not noticed yet. If not, no other process
  // has its number, so bytes that were read under that number came from its memory. Always false
  // while the end is not noticed and there is no `end`.
  bool has_ended() const {
    pollfd look{end, POLLIN, 0};
    return ended || ::poll(&look, 1, 0) > 0;
  }

  const HostSocketName name;
  const pid_t process;  // 0: this process cannot see it
  PeerDoorbell doorbell;
  Descriptor end;  // readable once the process has ended (pidfd_open(2)); may be missing
  bool ended = false;
};

}  // namespace rocecoll
