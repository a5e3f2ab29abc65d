// SPDX-License-Identifier: Apache-2.0
#include "transport/datagram/udp/udp_address.h"

#include <arpa/inet.h>

#include <array>
#include <charconv>
#include <string>

#include "base/bytes.h"
#include "base/hash.h"

namespace rocecoll {
namespace {

constexpr size_t kIpOffset = 3;
constexpr std::string_view kLinkLocal =
    "a link-local IPv6 address, which other hosts cannot use; give the interface another";

Status Invalid(std::string_view what, std::string_view text) {
  return Status(StatusCode::kInvalidArgument, std::string(what) + ": '" + std::string(text) + "'");
}

std::span<const std::byte> IpBytes(const UdpEndpoint& endpoint) {
  if (endpoint.family() == AF_INET6) return std::as_bytes(std::span(&endpoint.v6.sin6_addr, 1));
  return std::as_bytes(std::span(&endpoint.v4.sin_addr, 1));
}

std::string Text(const UdpEndpoint& endpoint) {
  char host[INET6_ADDRSTRLEN] = {};
  inet_ntop(endpoint.family(), IpBytes(endpoint).data(), host, sizeof(host));
  const std::string port = std::to_string(endpoint.port());
  return endpoint.family() == AF_INET6 ? "[" + std::string(host) + "]:" + port
                                       : std::string(host) + ":" + port;
}

}  // namespace

void UdpEndpoint::set_port(uint16_t port) {
  (family() == AF_INET6 ? v6.sin6_port : v4.sin_port) = htons(port);
}

bool UdpEndpoint::is_loopback() const {
  if (family() == AF_INET6) return IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr);
  return ntohl(v4.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
}

bool operator==(const UdpEndpoint& a, const UdpEndpoint& b) {
  if (a.family() != b.family() || a.port() != b.port()) return false;
  const auto ip_a = IpBytes(a);
  return std::memcmp(ip_a.data(), IpBytes(b).data(), ip_a.size()) == 0;
}

size_t UdpEndpointHash::operator()(const UdpEndpoint& endpoint) const {
  uint64_t hash =
      static_cast<uint64_t>(endpoint.port()) << 16 | static_cast<uint64_t>(endpoint.family());
  const auto ip = IpBytes(endpoint);
  for (size_t i = 0; i < ip.size(); i += 4) {
    hash = HashWords({hash, LoadLe<uint32_t>(ip.data() + i)});
  }
  return hash;
}

Result<UdpEndpoint> ParseUdpHost(std::string_view host, uint16_t port) {
  UdpEndpoint endpoint;
  const std::string text(host);
  if (inet_pton(AF_INET, text.c_str(), &endpoint.v4.sin_addr) == 1) {
    endpoint.v4.sin_family = AF_INET;
  } else if (inet_pton(AF_INET6, text.c_str(), &endpoint.v6.sin6_addr) == 1) {
    endpoint.v6.sin6_family = AF_INET6;
    if (IN6_IS_ADDR_LINKLOCAL(&endpoint.v6.sin6_addr)) return Invalid(kLinkLocal, host);
  } else if (text.starts_with("fe80") && text.find('%') != std::string::npos) {
    return Invalid(kLinkLocal, host);
  } else {
    return Invalid("not a numeric IPv4 or IPv6 address", host);
  }
  endpoint.set_port(port);
  return endpoint;
}

Result<Address> ParseUdpAddress(std::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return Invalid("no port in address", text);
  std::string_view host = text.substr(0, colon);
  const std::string_view digits = text.substr(colon + 1);
  uint16_t port = 0;
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (digits.empty() || parsed.ec != std::errc() || parsed.ptr != digits.end() || port == 0) {
    return Invalid("not a port (1..65535) in address", text);
  }
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  Result<UdpEndpoint> endpoint = ParseUdpHost(host, port);
  if (!endpoint.ok()) return endpoint.status();
  if (bracketed != (endpoint.value().family() == AF_INET6)) {
    return Invalid("IPv6 addresses, and only they, are written in brackets", text);
  }
  return ToAddress(endpoint.value());
}

Address ToAddress(const UdpEndpoint& endpoint) {
  std::array<std::byte, Address::kMaxBytes> bytes;
  ByteWriter writer(bytes);
  writer.Write(static_cast<uint8_t>(endpoint.family() == AF_INET6 ? 6 : 4));
  writer.Write(endpoint.port());
  writer.WriteBytes(IpBytes(endpoint));
  return Address(writer.written(), Text(endpoint));
}

Result<UdpEndpoint> ToUdpEndpoint(const Address& address) {
  const auto bytes = address.bytes();
  UdpEndpoint endpoint;
  if (bytes.size() == kIpOffset + 4 && bytes[0] == std::byte{4}) {
    endpoint.v4.sin_family = AF_INET;
    std::memcpy(&endpoint.v4.sin_addr, bytes.data() + kIpOffset, 4);
  } else if (bytes.size() == kIpOffset + 16 && bytes[0] == std::byte{6}) {
    endpoint.v6.sin6_family = AF_INET6;
    std::memcpy(&endpoint.v6.sin6_addr, bytes.data() + kIpOffset, 16);
  } else {
    return Invalid("not the address of a UDP port", address.text());
  }
  endpoint.set_port(LoadLe<uint16_t>(bytes.data() + 1));
  return endpoint;
}

}  // namespace rocecoll
