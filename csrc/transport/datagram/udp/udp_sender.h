// SPDX-License-Identifier: Apache-2.0
// Sends a batch of datagrams with as few system calls as the kernel allows: a run of equal-sized
// datagrams to one peer is one message with UDP_SEGMENT, and several messages are one sendmmsg.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "transport/datagram/udp/udp_address.h"
#include "transport/port.h"

namespace rocecoll {

// Where datagrams to one peer go, and what the route there takes.
struct UdpDestination {
  UdpEndpoint endpoint;
  std::span<const std::byte> source;  // control message with the source address, or empty
  size_t max_datagram_bytes = 0;      // of the route, as last read
  bool segments = true;               // false once the kernel has refused to segment on this route
};

class UdpSender {
 public:
  using DestinationOf = std::function<UdpDestination&(PeerHandle)>;
  // `destination_of` finds a peer's destination, whose address in memory is stable. `drain_errors`
  // empties the socket's error queue: a report about one peer otherwise fails the next send to any
  // other. `refused` is called with the error number of a datagram that this host does not send.
  // `look_at_route` updates a destination.
  UdpSender(int fd, bool offload, DestinationOf destination_of, std::function<void()> drain_errors,
            std::function<void(PeerHandle, int)> refused,
            std::function<void(PeerHandle)> look_at_route);

  // As DatagramPort::send(). The payload is lent only during the call.
  size_t send(std::span<const TxDatagram> batch);

 private:
  static constexpr size_t kMaxMessages = 16;
  static constexpr size_t kMaxSegments = 64;          // UDP_MAX_SEGMENTS before Linux 6.9
  static constexpr size_t kMaxMessageBytes = 65'000;  // below IPv4's 65,507
  static constexpr size_t kMaxSlices = 512;
  struct alignas(cmsghdr) Control {
    std::byte bytes[CMSG_SPACE(sizeof(in6_pktinfo)) + CMSG_SPACE(sizeof(uint16_t))];
  };

  // Arranges a prefix of `batch` as messages; returns the number of messages.
  size_t plan(std::span<const TxDatagram> batch);
  size_t run_length(std::span<const TxDatagram> batch) const;
  void add_message(size_t index, std::span<const TxDatagram> run);
  // Decides what to do after the kernel has refused the first message, which begins with `first`.
  enum class Verdict { kRetry, kLater, kLost, kSent };
  Verdict judge(int error, int attempts, const TxDatagram& first);
  bool is_too_large(const TxDatagram& datagram);
  Verdict send_in_fragments(const TxDatagram& datagram);

  const int fd_;
  const bool offload_;
  const DestinationOf destination_of_;
  const std::function<void()> drain_errors_;
  const std::function<void(PeerHandle, int)> refused_;
  const std::function<void(PeerHandle)> look_at_route_;
  std::array<mmsghdr, kMaxMessages> messages_{};
  std::array<size_t, kMaxMessages> datagrams_{};  // in each message
  std::array<Control, kMaxMessages> controls_{};
  std::array<iovec, kMaxSlices> slices_{};
  size_t slices_used_ = 0;
};

}  // namespace rocecoll
