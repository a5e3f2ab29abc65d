// SPDX-License-Identifier: Apache-2.0
// The Unix socket through which the processes of one host introduce themselves, hand over shared
// memory and wake each other. Its name is abstract: no file, and nobody of another network
// namespace reaches it. Memory that another user sends is not taken.
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

// As the system wants it.
struct HostSocketAddress {
  HostSocketAddress() = default;
  explicit HostSocketAddress(const HostSocketName& name);
  const sockaddr* generic() const { return reinterpret_cast<const sockaddr*>(&address); }

  sockaddr_un address{};
  socklen_t size = 0;
};

// Tells one end of a path where the other one's ring and doorbell are.
struct HostGreeting {
  HostSocketName from{};
  uint64_t nonce = 0;  // of the end that it is for
  uint32_t slot = 0;   // of that end's process
};

class HostSocket {
 public:
  // kNetwork where the system refuses.
  static Result<HostSocket> Open();

  // The peer has something to look at.
  void wake(const HostSocketAddress& peer) const;
  // False: there is no room for it now, try again. kNetwork: nobody has this name, or the system
  // will not let it through.
  Result<bool> greet(HostSocketAddress peer, const HostGreeting& greeting, int ring,
                     int doorbell) const;
  struct Received {
    std::optional<HostGreeting> greeting;  // else a word to wake us
    std::string_view obstacle;             // why the peer cannot share memory with us, if so
    pid_t process = 0;                     // as this process sees it; 0: it cannot
    Descriptor ring;
    Descriptor doorbell;
  };
  // None: nothing waits. A greeting from another user, or whose descriptors have not come along, is
  // handed on without them: only the nonce in it tells whether it is the peer's.
  std::optional<Received> receive() const;

  const HostSocketName& name() const { return name_; }
  int descriptor() const { return socket_; }

 private:
  HostSocketName name_{};
  Descriptor socket_;
};

}  // namespace rocecoll
