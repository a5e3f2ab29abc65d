// SPDX-License-Identifier: Apache-2.0
// A port's address in the form of RoCE v2: an IPv6 address, or an IPv4 address mapped into one
// (RFC 4291 section 2.5.5.2). Packets of a mapped GID are IPv4 packets.
#pragma once

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>

namespace rocecoll {

struct Gid {
  static constexpr std::array<uint8_t, 12> kMapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  std::array<uint8_t, 16> bytes{};

  bool is_ipv4() const { return std::equal(kMapped.begin(), kMapped.end(), bytes.begin()); }
  bool is_link_local() const {  // of either family
    if (is_ipv4()) return bytes[12] == 169 && bytes[13] == 254;
    return bytes[0] == 0xfe && (bytes[1] & 0xc0) == 0x80;
  }
  friend bool operator==(const Gid&, const Gid&) = default;
};

// "192.0.2.1" or "2001:db8::1".
inline std::string ToText(const Gid& gid) {
  char text[INET6_ADDRSTRLEN] = "";
  if (gid.is_ipv4()) {
    inet_ntop(AF_INET, gid.bytes.data() + Gid::kMapped.size(), text, sizeof(text));
  } else {
    inet_ntop(AF_INET6, gid.bytes.data(), text, sizeof(text));
  }
  return text;
}

// Parses such a text; returns nothing for any other.
inline std::optional<Gid> ParseGid(const std::string& host) {
  Gid gid;
  if (inet_pton(AF_INET6, host.c_str(), gid.bytes.data()) == 1) return gid;
  std::copy(Gid::kMapped.begin(), Gid::kMapped.end(), gid.bytes.begin());
  if (inet_pton(AF_INET, host.c_str(), gid.bytes.data() + Gid::kMapped.size()) == 1) return gid;
  return std::nullopt;
}

}  // namespace rocecoll
