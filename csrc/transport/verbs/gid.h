// SPDX-License-Identifier: Apache-2.0
// A port's address in the form of RoCE v2: an IPv6 address, or an IPv4 address mapped into one
// (RFC 4291 section 2.5.5.2). Packets of a mapped GID are IPv4 packets.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

namespace rocecoll {

struct Gid {
  std::array<uint8_t, 16> bytes{};

  bool is_ipv4() const;
  bool is_link_local() const;  // of either family
  friend bool operator==(const Gid&, const Gid&) = default;
};

// "192.0.2.1" or "2001:db8::1".
std::string ToText(const Gid& gid);
// From such a text; empty for anything else.
std::optional<Gid> ParseGid(const std::string& host);

}  // namespace rocecoll
