// SPDX-License-Identifier: Apache-2.0
// Addresses of UDP ports: opaque bytes for the layers above, socket addresses for the system.
//
//   offset  size  field
//        0     1  family: 4 or 6
//        1     2  port, little endian
//        3     4  or 16: the IP address in network order
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/status.h"
#include "transport/address.h"

namespace rocecoll {

// An IPv4 or IPv6 socket address, at most one cache line, comparable and hashable. Link-local IPv6
// addresses are refused: they have a meaning only together with an interface of one host.
struct UdpEndpoint {
  union {
    sockaddr generic;
    sockaddr_in v4;
    sockaddr_in6 v6;
  };

  UdpEndpoint() { std::memset(static_cast<void*>(this), 0, sizeof(*this)); }
  int family() const { return generic.sa_family; }
  uint16_t port() const { return ntohs(family() == AF_INET6 ? v6.sin6_port : v4.sin_port); }
  void set_port(uint16_t port);
  bool is_loopback() const;
  socklen_t size() const { return family() == AF_INET6 ? sizeof(v6) : sizeof(v4); }
  friend bool operator==(const UdpEndpoint& a, const UdpEndpoint& b);
};

struct UdpEndpointHash {
  size_t operator()(const UdpEndpoint& endpoint) const;
};

// A numeric host, without brackets: "192.0.2.1", "2001:db8::1".
Result<UdpEndpoint> ParseUdpHost(std::string_view host, uint16_t port);
// "192.0.2.1:4000" or "[2001:db8::1]:4000".
Result<Address> ParseUdpAddress(std::string_view text);

Address ToAddress(const UdpEndpoint& endpoint);
Result<UdpEndpoint> ToUdpEndpoint(const Address& address);

}  // namespace rocecoll
