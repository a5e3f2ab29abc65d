// SPDX-License-Identifier: Apache-2.0
// One unconnected, non-blocking UDP socket and what must be said to the kernel about it.
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

// At a system call that fails with reports about datagrams sent before. A message refused this
// often although the error queue was emptied in between is the network's last word on it.
inline constexpr int kMaxAttempts = 4;

struct UdpPortOptions {
  // Numeric address that peers use. The socket binds to all, since peers on this host use loopback.
  std::string host = "127.0.0.1";
  uint16_t port_low = 0;  // 0, 0: any port
  uint16_t port_high = 0;
  uint32_t local_ranks = 0;            // processes of this host that need a port; 0: not known
  size_t max_datagram_bytes = 65'000;  // cap; the route's MTU may be less
  size_t socket_buffer_bytes = 4 * 1024 * 1024;
  bool segmentation_offload = true;  // UDP_SEGMENT and UDP_GRO where the kernel has them
  uint8_t dscp = 0;                  // differentiated services code point (RFC 2474), 6 bits
  bool ecn = true;                   // packets say that queues may mark them (RFC 3168)
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
  // The advertised host with the port that was bound.
  const UdpEndpoint& endpoint() const { return endpoint_; }
  // SO_RCVBUF as the kernel reports it: it bounds the memory that waiting packets occupy, their
  // bookkeeping included.
  size_t receive_memory_bytes() const { return receive_memory_bytes_; }
  bool send_offload() const { return send_offload_; }  // the kernel knows UDP_SEGMENT
  // For people: what was asked for and what the kernel gave.
  std::string description() const;

  // Largest UDP payload that the route to `endpoint` carries unfragmented; 0 without a route.
  static size_t RoutePayloadBytes(const UdpEndpoint& endpoint);
  // Whether datagrams of the socket above a way's MTU go in fragments, or not at all.
  static bool SetFragments(int fd, int family, bool permitted);

  // The control message that makes datagrams for `to` leave from the advertised host, whatever the
  // route's own choice would be: a peer, or a firewall, takes others for a stranger's. Empty where
  // the kernel is to choose: within this host, or if the host is no address of this machine.
  std::span<const std::byte> source_for(const UdpEndpoint& to) const;

  // Hands one datagram to the kernel; false with errno if that refuses it.
  bool send_to(const UdpEndpoint& to, std::span<const std::byte> datagram) const;

  // Takes the errors that the network reported for earlier datagrams off the socket's error queue,
  // and appends the endpoints they say cannot be reached, and those whose route has turned out to
  // take less than was sent. Bounded per call.
  void drain_errors(std::deque<UdpObstacle>& unreachable,
                    std::vector<UdpEndpoint>& too_large) const;
  // What an error number says of a datagram's destination; kNone if nothing.
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
