// SPDX-License-Identifier: Apache-2.0
#include "transport/datagram/udp/udp_socket.h"

#include <errno.h>
#include <linux/errqueue.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/system_error.h"
#include "transport/datagram/udp/udp_offload.h"

namespace rocecoll {
namespace {

constexpr int kMaxErrorsPerDrain = 256;
// ECT(0). ECT(1) promises more than a reaction to marks (RFC 9331 section 4), such as to fall back
// where a queue marks as it would drop.
constexpr int kEcnCapable = 2;

bool SetOption(int fd, int level, int name, int value) {
  return setsockopt(fd, level, name, &value, sizeof(value)) == 0;
}

int GetOption(int fd, int level, int name) {
  int value = 0;
  socklen_t size = sizeof(value);
  return getsockopt(fd, level, name, &value, &size) == 0 ? value : -1;
}

// The privileged option ignores the system's limit; without the privilege the limit applies.
void SetBuffer(int fd, int forced, int ordinary, size_t bytes) {
  const int value = static_cast<int>(std::min<size_t>(bytes, 1u << 30));
  if (!SetOption(fd, SOL_SOCKET, forced, value)) SetOption(fd, SOL_SOCKET, ordinary, value);
}

// The kernel reports twice the size that was requested (socket(7)).
std::string BufferText(int fd, int option, const char* limit, size_t asked_bytes) {
  const size_t bytes = static_cast<size_t>(std::max(GetOption(fd, SOL_SOCKET, option), 0)) / 2;
  if (bytes >= asked_bytes) return std::to_string(bytes) + " bytes";
  const std::string asked = std::to_string(asked_bytes);
  return "only " + std::to_string(bytes) + " of " + asked + " bytes (as root, sysctl -w net.core." +
         limit + "=" + asked + " allows them)";
}

// `error` is that of the last port that was tried.
Status NoPort(const UdpPortOptions& options, int error) {
  if (options.port_high == 0) return SystemError("no free UDP port on this host", error);
  const std::string range = "ROCECOLL_PORT_RANGE=" + std::to_string(options.port_low) + "-" +
                            std::to_string(options.port_high);
  if (error == EACCES) {
    return SystemError("cannot take a UDP port of " + range + " (those below 1024 are root's)",
                       error);
  }
  if (error != EADDRINUSE) return SystemError("cannot take a UDP port of " + range, error);
  const uint32_t ports = options.port_high - options.port_low + 1u;
  const uint32_t ranks = options.local_ranks;
  std::string text = "no UDP port of " + range + " is free: each process takes one";
  if (ranks > 0) {
    text += ", this host has " + std::to_string(ranks) + (ranks == 1 ? " rank" : " ranks");
  }
  if (ranks > ports) {
    text += ", the range only " + std::to_string(ports) + "; give it " + std::to_string(ranks) +
            " ports or more";
  } else {
    text += ports == 1 ? ", and another process has the only one"
                       : ", and other processes have all " + std::to_string(ports);
    text += " (ss -ulnp shows whose they are); give the range more ports, or others";
  }
  return Status(StatusCode::kNetwork, std::move(text));
}

}  // namespace

Result<UdpSocket> UdpSocket::Open(const UdpPortOptions& options) {
  Result<UdpEndpoint> host = ParseUdpHost(options.host, 0);
  if (!host.ok()) return host.status();
  const int family = host.value().family();
  UdpSocket socket(::socket(family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket.fd_.valid()) return SystemError("cannot open a UDP socket");
  socket.endpoint_ = host.value();
  if (Status status = socket.configure(options, family); !status.ok()) return status;
  if (Status status = socket.bind(options); !status.ok()) return status;
  if (Status status = socket.prepare_source(); !status.ok()) return status;
  return socket;
}

Status UdpSocket::configure(const UdpPortOptions& options, int family) {
  SetBuffer(fd_, SO_RCVBUFFORCE, SO_RCVBUF, options.socket_buffer_bytes);
  SetBuffer(fd_, SO_SNDBUFFORCE, SO_SNDBUF, options.socket_buffer_bytes);
  const int memory = GetOption(fd_, SOL_SOCKET, SO_RCVBUF);
  if (memory < 0) return SystemError("cannot read SO_RCVBUF");
  receive_memory_bytes_ = static_cast<size_t>(memory);
  asked_buffer_bytes_ = options.socket_buffer_bytes;
  const bool errors_on = family == AF_INET6 ? SetOption(fd_, IPPROTO_IPV6, IPV6_RECVERR, 1) &&
                                                  SetOption(fd_, IPPROTO_IPV6, IPV6_V6ONLY, 1)
                                            : SetOption(fd_, IPPROTO_IP, IP_RECVERR, 1);
  if (!errors_on) return SystemError("cannot ask for the network's error reports");
  // Without the stamps, time in the socket's buffer would count as the network's.
  SetOption(fd_, SOL_SOCKET, SO_TIMESTAMPNS, 1);
  // Otherwise Linux lets routers fragment what it segments, which is slow and hides the path's MTU.
  // On loopback the kernel may fragment.
  const bool whole = endpoint_.is_loopback() || SetFragments(fd_, family, false);
  if (!whole) return SystemError("cannot forbid the fragmentation of datagrams");
  if (options.segmentation_offload) {
    send_offload_ = GetOption(fd_, IPPROTO_UDP, UDP_SEGMENT) >= 0;
    // A kernel without UDP_GRO delivers datagrams one by one, which the receiver handles, too.
    receive_offload_ = SetOption(fd_, IPPROTO_UDP, UDP_GRO, 1);
  }
  return set_traffic_class(options, family);
}

std::string UdpSocket::description() const {
  const auto used = [](bool yes) { return std::string(yes ? "yes" : "no"); };
  return "UDP port " + std::to_string(endpoint_.port()) + ": UDP_SEGMENT " + used(send_offload_) +
         ", UDP_GRO " + used(receive_offload_) + "; send buffer " +
         BufferText(fd_, SO_SNDBUF, "wmem_max", asked_buffer_bytes_) + ", receive buffer " +
         BufferText(fd_, SO_RCVBUF, "rmem_max", asked_buffer_bytes_);
}

// A system without ECN sends and receives packets without it.
Status UdpSocket::set_traffic_class(const UdpPortOptions& options, int family) const {
  const bool v6 = family == AF_INET6;
  v6 ? SetOption(fd_, IPPROTO_IPV6, IPV6_RECVTCLASS, 1) : SetOption(fd_, IPPROTO_IP, IP_RECVTOS, 1);
  const int value = options.dscp << 2 | (options.ecn ? kEcnCapable : 0);
  const bool set = v6 ? SetOption(fd_, IPPROTO_IPV6, IPV6_TCLASS, value)
                      : SetOption(fd_, IPPROTO_IP, IP_TOS, value);
  if (!set && options.dscp != 0) {
    return SystemError("cannot set the DSCP " + std::to_string(options.dscp));
  }
  return Status();
}

Status UdpSocket::bind(const UdpPortOptions& options) {
  if (options.port_low > options.port_high) {
    return Status(StatusCode::kInvalidArgument, "empty port range " +
                                                    std::to_string(options.port_low) + ".." +
                                                    std::to_string(options.port_high));
  }
  UdpEndpoint any;  // all zero: the wildcard address
  any.generic.sa_family = static_cast<sa_family_t>(endpoint_.family());
  for (uint32_t port = options.port_low; port <= options.port_high; ++port) {
    any.set_port(static_cast<uint16_t>(port));
    if (::bind(fd_, &any.generic, any.size()) == 0) {
      UdpEndpoint bound;
      socklen_t size = sizeof(bound);
      if (getsockname(fd_, &bound.generic, &size) != 0) return SystemError("getsockname");
      endpoint_.set_port(bound.port());
      return Status();
    }
    if (errno != EADDRINUSE && errno != EACCES) break;
  }
  return NoPort(options, errno);
}

// ip(7), IP_PKTINFO: ipi_spec_dst is the source of the packet, for the choice of the route, too.
// RFC 3542 section 6 for IPv6.
Status UdpSocket::prepare_source() {
  UdpEndpoint local = endpoint_;
  local.set_port(0);
  const UdpSocket probe(::socket(local.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!probe.fd_.valid()) return SystemError("cannot open a second UDP socket");
  const bool here = ::bind(probe.fd_, &local.generic, local.size()) == 0;
  if (!here) return {};
  const bool v6 = local.family() == AF_INET6;
  auto* const item = reinterpret_cast<cmsghdr*>(source_.data());
  if (v6) {
    in6_pktinfo info{};
    info.ipi6_addr = local.v6.sin6_addr;
    *item = {CMSG_LEN(sizeof(info)), IPPROTO_IPV6, IPV6_PKTINFO};
    std::memcpy(CMSG_DATA(item), &info, sizeof(info));
    source_bytes_ = CMSG_SPACE(sizeof(info));
  } else {
    in_pktinfo info{};
    info.ipi_spec_dst = local.v4.sin_addr;
    *item = {CMSG_LEN(sizeof(info)), IPPROTO_IP, IP_PKTINFO};
    std::memcpy(CMSG_DATA(item), &info, sizeof(info));
    source_bytes_ = CMSG_SPACE(sizeof(info));
  }
  return {};
}

std::span<const std::byte> UdpSocket::source_for(const UdpEndpoint& to) const {
  if (to.is_loopback() != endpoint_.is_loopback()) return {};
  return std::span(source_).first(source_bytes_);
}

Obstacle UdpSocket::ObstacleOf(uint32_t error) {
  switch (error) {
    case ECONNREFUSED:
      return Obstacle::kPortRefused;
    case EHOSTUNREACH:
    case EHOSTDOWN:
      return Obstacle::kHostUnreachable;
    case ENETUNREACH:
    case ENETDOWN:
      return Obstacle::kNetworkUnreachable;
    case EACCES:
      return Obstacle::kProhibited;
    case EPERM:
      return Obstacle::kProhibitedHere;
    default:
      return Obstacle::kNone;
  }
}

bool UdpSocket::send_to(const UdpEndpoint& to, std::span<const std::byte> datagram) const {
  const auto source = source_for(to);
  iovec slice{const_cast<std::byte*>(datagram.data()), datagram.size()};  // the kernel only reads
  msghdr message{};
  message.msg_name = const_cast<sockaddr*>(&to.generic);
  message.msg_namelen = to.size();
  message.msg_iov = &slice;
  message.msg_iovlen = 1;
  message.msg_control = source.empty() ? nullptr : const_cast<std::byte*>(source.data());
  message.msg_controllen = source.size();
  return sendmsg(fd_, &message, MSG_DONTWAIT) >= 0;
}

void UdpSocket::drain_errors(std::deque<UdpObstacle>& unreachable,
                             std::vector<UdpEndpoint>& too_large) const {
  for (int i = 0; i < kMaxErrorsPerDrain; ++i) {
    UdpEndpoint destination;
    alignas(cmsghdr) std::array<char, 512> control;
    msghdr message{};
    message.msg_name = &destination.generic;
    message.msg_namelen = sizeof(destination);
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    if (recvmsg(fd_, &message, MSG_ERRQUEUE | MSG_DONTWAIT) < 0) return;
    for (cmsghdr* item = CMSG_FIRSTHDR(&message); item; item = CMSG_NXTHDR(&message, item)) {
      const bool is_error = (item->cmsg_level == IPPROTO_IP && item->cmsg_type == IP_RECVERR) ||
                            (item->cmsg_level == IPPROTO_IPV6 && item->cmsg_type == IPV6_RECVERR);
      if (!is_error) continue;
      sock_extended_err error;
      std::memcpy(&error, CMSG_DATA(item), sizeof(error));
      const Obstacle obstacle = ObstacleOf(error.ee_errno);
      if (obstacle != Obstacle::kNone) unreachable.push_back({destination, obstacle});
      // The kernel has stored in its route what the router reported, if it believed it.
      if (error.ee_errno == EMSGSIZE) too_large.push_back(destination);
    }
  }
}

// PROBE rather than DO: a forged report must not make the kernel refuse the base size.
bool UdpSocket::SetFragments(int fd, int family, bool permitted) {
  return family == AF_INET6 ? SetOption(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER,
                                        permitted ? IPV6_PMTUDISC_DONT : IPV6_PMTUDISC_PROBE)
                            : SetOption(fd, IPPROTO_IP, IP_MTU_DISCOVER,
                                        permitted ? IP_PMTUDISC_DONT : IP_PMTUDISC_PROBE);
}

size_t UdpSocket::RoutePayloadBytes(const UdpEndpoint& endpoint) {
  const bool v6 = endpoint.family() == AF_INET6;
  const UdpSocket probe(::socket(endpoint.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!probe.fd_.valid() || connect(probe.fd_, &endpoint.generic, endpoint.size()) != 0) return 0;
  const int mtu =
      v6 ? GetOption(probe.fd_, IPPROTO_IPV6, IPV6_MTU) : GetOption(probe.fd_, IPPROTO_IP, IP_MTU);
  const int headers = (v6 ? 40 : 20) + 8;
  return mtu > headers ? static_cast<size_t>(mtu - headers) : 0;
}

}  // namespace rocecoll
