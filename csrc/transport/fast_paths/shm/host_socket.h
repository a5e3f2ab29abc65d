// SPDX-License-Identifier: Apache-2.0
// The Unix socket through which the processes of one host greet each other, hand over shared memory
// and wake each other. Its name is abstract: there is no file, and processes of other network
// namespaces cannot reach it. Memory that another user sends is not accepted.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/descriptor.h"
#include "base/status.h"

namespace rocecoll {

// The random part of a socket's name.
using HostSocketName = std::array<uint64_t, 2>;

// The same, as system calls take it.
struct HostSocketAddress {
  HostSocketAddress() = default;
  explicit HostSocketAddress(const HostSocketName& name);
  const sockaddr* generic() const { return reinterpret_cast<const sockaddr*>(&address); }

  sockaddr_un address{};
  socklen_t size = 0;
};

// Comes with the ring and the doorbell of one end of a path, for the other end.
struct HostGreeting {
  HostSocketName from{};
  uint64_t nonce = 0;  // of the end that it is for
  uint32_t slot = 0;   // of that end, in its process
};

class HostSocket {
 public:
  // kNetwork if the system refuses.
  static Result<HostSocket> Open();

  // Wakes the peer to look at something.
  void wake(const HostSocketAddress& peer) const;
  // False: there is no room for the greeting now, try again. kNetwork: no socket has this name, or
  // the system does not let the greeting through.
  Result<bool> greet(HostSocketAddress peer, const HostGreeting& greeting, int ring,
                     int doorbell) const;
  struct Received {
    std::optional<HostGreeting> greeting;  // none: only a word to wake us
    std::string_view obstacle;  // why the peer cannot share memory with us; empty: it can
    pid_t process = 0;          // the sender; 0: this process cannot see it
    Descriptor ring;
    Descriptor doorbell;
  };
  // None: nothing has come. A greeting from another user, or without descriptors, is returned with
  // an obstacle instead of them, because only its nonce tells whether it comes from the peer.
  std::optional<Received> receive() const;

  const HostSocketName& name() const { return name_; }
  int descriptor() const { return socket_; }

 private:
  HostSocketName name_{};
  Descriptor socket_;
};

}  // namespace rocecoll
