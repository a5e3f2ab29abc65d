// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace rocecoll {

// What the network, or this host, reported when a datagram could not be delivered. Such reports can
// be forged. Only kPortRefused is about the process; the others are soft errors (RFC 1122, section
// 4.2.3.9), which a flapping link or a late ARP answer causes and which pass.
enum class Obstacle : uint8_t {
  kNone,
  kPortRefused,         // ECONNREFUSED: ICMP port unreachable
  kHostUnreachable,     // EHOSTUNREACH, EHOSTDOWN: no answer to ARP; a router or firewall said so
  kNetworkUnreachable,  // ENETUNREACH, ENETDOWN: no route
  kProhibited,          // EACCES: a firewall on the way (ICMPv6)
  kProhibitedHere,      // EPERM: this host's own firewall
};

constexpr std::string_view Describe(Obstacle obstacle) {
  switch (obstacle) {
    case Obstacle::kNone:
      return "";
    case Obstacle::kPortRefused:
      return "its port refuses packets (ECONNREFUSED)";
    case Obstacle::kHostUnreachable:
      return "the network cannot reach its host (EHOSTUNREACH)";
    case Obstacle::kNetworkUnreachable:
      return "there is no route to its host (ENETUNREACH)";
    case Obstacle::kProhibited:
      return "a firewall on the way forbids packets to it (EACCES)";
    case Obstacle::kProhibitedHere:
      return "a firewall of this host forbids packets to it (EPERM)";
  }
  return "";
}

}  // namespace rocecoll
