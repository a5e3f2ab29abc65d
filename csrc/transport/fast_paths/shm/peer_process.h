// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <poll.h>
#include <sys/types.h>

#include <utility>

#include "base/descriptor.h"
#include "transport/fast_paths/shm/copy_choice.h"
#include "transport/fast_paths/shm/doorbell.h"
#include "transport/fast_paths/shm/host_socket.h"

namespace rocecoll {

// Another process of this host, for all paths to it.
struct PeerProcess {
  PeerProcess(const HostSocketName& n, pid_t p, PeerDoorbell bell, Descriptor pidfd)
      : name(n), process(p), doorbell(std::move(bell)), end(std::move(pidfd)) {}

  // By now, whether or not the device has been told. Until then nobody else has its number: what
  // has been read under that was its memory. Where `end` is missing nobody knows.
  bool has_ended() const {
    pollfd look{end, POLLIN, 0};
    return ended || ::poll(&look, 1, 0) > 0;
  }

  const HostSocketName name;
  const pid_t process;  // 0: cannot be seen from here
  PeerDoorbell doorbell;
  CopyChoice copies;  // of large writes
  Descriptor end;     // readable once the process has ended (pidfd_open(2)); none: not known
  bool ended = false;
};

}  // namespace rocecoll
