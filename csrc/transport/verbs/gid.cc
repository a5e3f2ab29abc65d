// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/gid.h"

#include <arpa/inet.h>

#include <algorithm>

namespace rocecoll {
namespace {

constexpr std::array<uint8_t, 12> kMapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

}  // namespace

bool Gid::is_ipv4() const { return std::equal(kMapped.begin(), kMapped.end(), bytes.begin()); }

bool Gid::is_link_local() const {
  if (is_ipv4()) return bytes[12] == 169 && bytes[13] == 254;
  return bytes[0] == 0xfe && (bytes[1] & 0xc0) == 0x80;
}

std::string ToText(const Gid& gid) {
  char text[INET6_ADDRSTRLEN] = "";
  if (gid.is_ipv4()) {
    inet_ntop(AF_INET, gid.bytes.data() + kMapped.size(), text, sizeof(text));
  } else {
    inet_ntop(AF_INET6, gid.bytes.data(), text, sizeof(text));
  }
  return text;
}

std::optional<Gid> ParseGid(const std::string& host) {
  Gid gid;
  if (inet_pton(AF_INET6, host.c_str(), gid.bytes.data()) == 1) return gid;
  std::copy(kMapped.begin(), kMapped.end(), gid.bytes.begin());
  if (inet_pton(AF_INET, host.c_str(), gid.bytes.data() + kMapped.size()) == 1) return gid;
  return std::nullopt;
}

}  // namespace rocecoll
