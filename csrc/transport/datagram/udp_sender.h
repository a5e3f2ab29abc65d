// SPDX-License-Identifier: Apache-2.0
// From a batch of datagrams to as few system calls as the kernel allows: a run of equal-sized
// datagrams to one peer is one message with UDP_SEGMENT, several messages are one sendmmsg.
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "transport/datagram/port.h"
#include "transport/datagram/udp_address.h"

namespace rocecoll {

class UdpSender {
 public:
  using EndpointOf = std::function<const UdpEndpoint&(PeerHandle)>;
  // `endpoint_of` finds a peer's endpoint, which stays where it is. `drain_errors` empties the
  // socket's error queue: a report about one peer otherwise fails the next send to any other.
  // `refused` is told the error number of a datagram that this host will not send.
  UdpSender(int fd, bool offload, EndpointOf endpoint_of, std::function<void()> drain_errors,
            std::function<void(PeerHandle, int)> refused);

  // As DatagramPort::send; lends nothing beyond the call.
  size_t send(std::span<const TxDatagram> batch);
  // False from the start, or since the kernel refused it.
  bool offload() const { return offload_; }

 private:
  static constexpr size_t kMaxMessages = 16;
  static constexpr size_t kMaxSegments = 64;          // UDP_MAX_SEGMENTS before Linux 6.9
  static constexpr size_t kMaxMessageBytes = 65'000;  // below IPv4's 65,507
  static constexpr size_t kMaxSlices = 512;
  struct alignas(cmsghdr) SegmentControl {
    char bytes[CMSG_SPACE(sizeof(uint16_t))];
  };

  // Lays a prefix of `batch` out as messages; returns how many.
  size_t plan(std::span<const TxDatagram> batch);
  size_t run_length(std::span<const TxDatagram> batch) const;
  void add_message(size_t index, std::span<const TxDatagram> run);
  // What to do about the refusal of the first message: how many datagrams count as done.
  enum class Verdict { kRetry, kLater, kLost };
  Verdict judge(int error, int attempts);

  const int fd_;
  bool offload_;
  const EndpointOf endpoint_of_;
  const std::function<void()> drain_errors_;
  const std::function<void(PeerHandle, int)> refused_;
  std::array<mmsghdr, kMaxMessages> messages_{};
  std::array<size_t, kMaxMessages> datagrams_{};  // in each message
  std::array<SegmentControl, kMaxMessages> controls_{};
  std::array<iovec, kMaxSlices> slices_{};
  size_t slices_used_ = 0;
};

}  // namespace rocecoll
