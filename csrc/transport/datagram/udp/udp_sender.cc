// SPDX-License-Identifier: Apache-2.0
#include "transport/datagram/udp/udp_sender.h"

#include <errno.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "transport/datagram/udp/udp_offload.h"
#include "transport/datagram/udp/udp_socket.h"

namespace rocecoll {
namespace {

size_t Size(const TxDatagram& datagram) { return datagram.header.size() + datagram.payload.size(); }

}  // namespace

UdpSender::UdpSender(int fd, bool offload, DestinationOf destination_of,
                     std::function<void()> drain_errors,
                     std::function<void(PeerHandle, int)> refused,
                     std::function<void(PeerHandle)> look_at_route)
    : fd_(fd),
      offload_(offload),
      destination_of_(std::move(destination_of)),
      drain_errors_(std::move(drain_errors)),
      refused_(std::move(refused)),
      look_at_route_(std::move(look_at_route)) {}

size_t UdpSender::send(std::span<const TxDatagram> batch) {
  size_t done = 0;
  int attempts = 0;
  while (done < batch.size()) {
    const size_t planned = plan(batch.subspan(done));
    const int sent = sendmmsg(fd_, messages_.data(), static_cast<unsigned>(planned), MSG_DONTWAIT);
    if (sent > 0) {
      attempts = 0;
      for (int i = 0; i < sent; ++i) done += datagrams_[static_cast<size_t>(i)];
      // The kernel does not return the error that stopped it. If that was a report about an earlier
      // datagram, nothing else shows that the error queue holds one.
      if (static_cast<size_t>(sent) < planned) drain_errors_();
      continue;
    }
    const int error = errno;
    switch (judge(error, ++attempts, batch[done])) {
      case Verdict::kRetry:
        break;
      case Verdict::kLater:
        return done;
      case Verdict::kLost:
        refused_(batch[done].to, error);
        [[fallthrough]];
      case Verdict::kSent:
        done += datagrams_[0];
        attempts = 0;
        break;
    }
  }
  return done;
}

UdpSender::Verdict UdpSender::judge(int error, int attempts, const TxDatagram& first) {
  const bool segmented = datagrams_[0] > 1;
  switch (error) {
    case EAGAIN:  // the socket's buffer is full
    case ENOMEM:
      return Verdict::kLater;
    case ENOBUFS:  // the device's queue towards this peer was full and dropped the datagram
      return Verdict::kLost;
    case EINTR:
      return Verdict::kRetry;
    case EMSGSIZE:
    case EINVAL:
    case EIO:
    case ENOPROTOOPT:
    case EOPNOTSUPP:
      drain_errors_();
      if (is_too_large(first)) {
        if (segmented) return Verdict::kRetry;  // single datagrams may go in fragments
        if (destination_of_(first.to).endpoint.is_loopback()) return send_in_fragments(first);
      }
      if (error == EMSGSIZE) break;
      // The device of this route does not segment, unless it refuses even single datagrams, e.g.
      // because this host has lost the source address.
      destination_of_(first.to).segments = !segmented;
      if (segmented) return Verdict::kRetry;
      break;
    default:
      break;
  }
  // This is either a report about an earlier datagram to any peer, or a refusal of this one. The
  // error number does not tell which; another attempt does.
  drain_errors_();
  return attempts < kMaxAttempts ? Verdict::kRetry : Verdict::kLost;
}

// Sends the first message, which is a single datagram: a frame that was not cut into pieces when
// loopback's MTU was larger. The socket forbids fragments because of other routes, so this permits
// them for the duration of the call.
UdpSender::Verdict UdpSender::send_in_fragments(const TxDatagram& datagram) {
  const int family = destination_of_(datagram.to).endpoint.family();
  UdpSocket::SetFragments(fd_, family, true);
  const bool sent = sendmsg(fd_, &messages_[0].msg_hdr, MSG_DONTWAIT) >= 0;
  const int error = errno;
  UdpSocket::SetFragments(fd_, family, false);
  if (sent) return Verdict::kSent;
  return error == EAGAIN || error == ENOMEM ? Verdict::kLater : Verdict::kLost;
}

// Whether the datagram is too large for the current route: Linux refuses segments above the route's
// MTU with EINVAL or EMSGSIZE.
bool UdpSender::is_too_large(const TxDatagram& datagram) {
  const UdpDestination& to = destination_of_(datagram.to);
  if (Size(datagram) <= to.max_datagram_bytes) look_at_route_(datagram.to);
  return Size(datagram) > to.max_datagram_bytes;
}

size_t UdpSender::plan(std::span<const TxDatagram> batch) {
  size_t count = 0;
  slices_used_ = 0;
  while (count < kMaxMessages && !batch.empty()) {
    const size_t length = run_length(batch);
    if (slices_used_ + 2 * length > kMaxSlices) break;
    add_message(count++, batch.first(length));
    batch = batch.subspan(length);
  }
  return count;
}

size_t UdpSender::run_length(std::span<const TxDatagram> batch) const {
  const UdpDestination& to = destination_of_(batch[0].to);
  const size_t segment = Size(batch[0]);
  if (!offload_ || !to.segments || segment > to.max_datagram_bytes || batch[0].alone) return 1;
  size_t total = segment;
  size_t length = 1;
  const size_t most = std::min(batch.size(), kMaxSegments);
  while (length < most) {
    const TxDatagram& next = batch[length];
    const size_t size = Size(next);
    if (next.to.index != batch[0].to.index || size > segment || size == 0 || next.alone) break;
    if (total + size > kMaxMessageBytes) break;
    total += size;
    ++length;
    if (size < segment) break;  // only the last segment may be shorter
  }
  return length;
}

void UdpSender::add_message(size_t index, std::span<const TxDatagram> run) {
  const UdpDestination& destination = destination_of_(run[0].to);
  const UdpEndpoint& to = destination.endpoint;
  msghdr& header = messages_[index].msg_hdr;
  header = {};
  header.msg_name = const_cast<sockaddr*>(&to.generic);  // the kernel only reads it
  header.msg_namelen = to.size();
  header.msg_iov = slices_.data() + slices_used_;
  for (const TxDatagram& datagram : run) {
    for (const auto slice : {datagram.header, datagram.payload}) {
      if (slice.empty()) continue;
      slices_[slices_used_++] = {const_cast<std::byte*>(slice.data()), slice.size()};
    }
  }
  header.msg_iovlen = static_cast<size_t>(slices_.data() + slices_used_ - header.msg_iov);
  datagrams_[index] = run.size();
  std::byte* const control = controls_[index].bytes;
  size_t control_bytes = destination.source.size();
  if (control_bytes > 0) std::memcpy(control, destination.source.data(), control_bytes);
  if (run.size() > 1) {
    auto* const item = reinterpret_cast<cmsghdr*>(control + control_bytes);
    *item = {CMSG_LEN(sizeof(uint16_t)), IPPROTO_UDP, UDP_SEGMENT};
    const auto segment = static_cast<uint16_t>(Size(run[0]));
    std::memcpy(CMSG_DATA(item), &segment, sizeof(segment));
    control_bytes += CMSG_SPACE(sizeof(segment));
  }
  if (control_bytes > 0) header.msg_control = control;
  header.msg_controllen = control_bytes;
}

}  // namespace rocecoll
