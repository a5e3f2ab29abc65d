// SPDX-License-Identifier: Apache-2.0
// An unconnected, non-blocking UDP socket and its configuration.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <vector>

#include "base/descriptor.h"
#include "base/status.h"
#include "transport/datagram/udp/udp_address.h"
#include "transport/obstacle.h"

namespace rocecoll {

// The most attempts of a system call that fails with reports about earlier datagrams. If a message
// is refused this often, although the error queue was emptied in between, the refusal is about the
// message itself.
inline constexpr int kMaxAttempts = 4;

struct UdpPortOptions {
  // The numeric address that peers use. The socket binds to all addresses, since peers on this host
  // use loopback.
  std::string host = "127.0.0.1";
  uint16_t port_low = 0;  // 0, 0: any port
  uint16_t port_high = 0;
  uint32_t local_ranks = 0;            // processes of this host that need a port; 0: unknown
  size_t max_datagram_bytes = 65'000;  // upper bound; the route's MTU may be smaller
  size_t socket_buffer_bytes = 4 * 1024 * 1024;
  bool segmentation_offload = true;  // UDP_SEGMENT and UDP_GRO where the kernel has them
  uint8_t dscp = 0;                  // differentiated services code point (RFC 2474), 6 bits
  bool ecn = true;                   // declare packets ECN-capable (RFC 3168)
};

struct UdpObstacle {
  UdpEndpoint destination;
  Obstacle obstacle = Obstacle::kNone;
};

class UdpSocket {
 public:
  static Result<UdpSocket> Open(const UdpPortOptions& options);
  UdpSocket(UdpSocket&& other) noexcept = default;
  UdpSocket& operator=(UdpSocket&&) = delete;

  int fd() const { return fd_; }
  // The advertised host, with the port that was bound.
  const UdpEndpoint& endpoint() const { return endpoint_; }
  // SO_RCVBUF as the kernel reports it: the bound of the memory that waiting packets occupy,
  // including the kernel's own structures.
  size_t receive_memory_bytes() const { return receive_memory_bytes_; }
  bool send_offload() const { return send_offload_; }  // the kernel knows UDP_SEGMENT
  // For people: what was requested, and what the kernel granted.
  std::string description() const;

  // The largest UDP payload that the route to `endpoint` carries unfragmented; 0 without a route.
  static size_t RoutePayloadBytes(const UdpEndpoint& endpoint);
  // Sets whether datagrams above a route's MTU are sent in fragments or not at all.
  static bool SetFragments(int fd, int family, bool permitted);

  // The control message that sets the source address of datagrams for `to` to the advertised host,
  // whatever the route would choose: with another one, a peer or a firewall takes them for a
  // stranger's. Empty if the kernel is to choose: within this host, or if the host is not an
  // address of this machine.
  std::span<const std::byte> source_for(const UdpEndpoint& to) const;

  // Passes one datagram to the kernel; false, with errno, if the kernel refuses it.
  bool send_to(const UdpEndpoint& to, std::span<const std::byte> datagram) const;

  // Takes the network's reports about earlier datagrams off the socket's error queue. Appends the
  // endpoints that cannot be reached, and those whose route has turned out to take less than was
  // sent. The work per call is bounded.
  void drain_errors(std::deque<UdpObstacle>& unreachable,
                    std::vector<UdpEndpoint>& too_large) const;
  // What an error number says about a datagram's destination; kNone if nothing.
  static Obstacle ObstacleOf(uint32_t error);

 private:
  explicit UdpSocket(int fd) : fd_(fd) {}
  Status configure(const UdpPortOptions& options, int family);
  Status set_traffic_class(const UdpPortOptions& options, int family) const;
  Status bind(const UdpPortOptions& options);
  Status prepare_source();

  Descriptor fd_;
  UdpEndpoint endpoint_;
  size_t receive_memory_bytes_ = 0;
  size_t asked_buffer_bytes_ = 0;
  bool send_offload_ = false;
  bool receive_offload_ = false;
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(in6_pktinfo))> source_{};
  size_t source_bytes_ = 0;
};

}  // namespace rocecoll
