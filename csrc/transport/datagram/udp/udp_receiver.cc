// SPDX-License-Identifier: Apache-2.0
#include "transport/datagram/udp/udp_receiver.h"

#include <errno.h>
#include <linux/sock_diag.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/monotonic_clock.h"
#include "transport/datagram/udp/udp_offload.h"
#include "transport/datagram/udp/udp_socket.h"

namespace rocecoll {
namespace {

// After a call that delivered large or coalesced datagrams, receive() returns, and the next call
// asks for only this many buffers, so that what is copied stays in the cache until it is placed.
constexpr size_t kCoalescedMessages = 4;
constexpr size_t kCoalescedBytes = 32 * 1024;

constexpr int kEcnBits = 3;  // of the traffic class; both set mean Congestion Experienced

// One byte with IPv4, an int with IPv6 (ip(7), RFC 3542 section 6.5).
bool IsMarked(cmsghdr& item) {
  int value = 0;
  if (item.cmsg_level == IPPROTO_IP && item.cmsg_type == IP_TOS) {
    value = *CMSG_DATA(&item);
  } else if (item.cmsg_level == IPPROTO_IPV6 && item.cmsg_type == IPV6_TCLASS) {
    std::memcpy(&value, CMSG_DATA(&item), sizeof(value));
  }
  return (value & kEcnBits) == kEcnBits;
}

Duration ToDuration(const timespec& time) {
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

// The clock of SO_TIMESTAMPNS (socket(7)).
Duration StampClock() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return ToDuration(now);
}

// The memory charged for what waits in the socket; 0 if the kernel does not tell.
size_t ChargedBytes(int fd) {
  std::array<uint32_t, SK_MEMINFO_VARS> memory{};
  socklen_t size = sizeof(memory);
  if (getsockopt(fd, SOL_SOCKET, SO_MEMINFO, memory.data(), &size) != 0) return 0;
  return memory[SK_MEMINFO_RMEM_ALLOC];
}

}  // namespace

UdpReceiver::UdpReceiver(const UdpSocket& socket, AddressOf address_of,
                         std::function<void()> drain_errors)
    : fd_(socket.fd()),
      memory_(socket.receive_memory_bytes()),
      address_of_(std::move(address_of)),
      drain_errors_(std::move(drain_errors)) {
  for (uint32_t i = kBuffers; i > 0; --i) free_.push_back(i - 1);
}

size_t UdpReceiver::receive(std::span<RxDatagram> batch) {
  size_t count = hand_out(batch);
  bool more = count < batch.size();
  while (more) {
    more = fetch();
    count += hand_out(batch.subspan(count));
    more = more && count < batch.size() && messages_per_call_ == kMaxMessages;
  }
  return count;
}

bool UdpReceiver::fetch() {
  first_arrival_ = end_arrival_ = 0;
  size_t asked = 0;
  while (asked < messages_per_call_ && prepare_message(asked)) ++asked;
  if (asked == 0) return false;  // all buffers are lent; the rest waits in the socket's buffer
  const size_t charged = memory_.sample_due() ? ChargedBytes(fd_) : 0;
  const int received = fetch_messages(asked);
  const size_t filled = received > 0 ? static_cast<size_t>(received) : 0;
  // In this order, so that an interruption in between makes arrivals look later, not earlier: one
  // long round trip does no harm, while one that is too short would be the minimum for seconds.
  if (filled > 0) stamp_clock_ = StampClock();
  fetched_at_ = MonotonicNow();
  size_t bytes = 0;
  for (size_t i = 0; i < filled; ++i) {
    bytes += messages_[i].msg_len;
    take_message(i);
  }
  if (filled < asked) emptied_at_ = fetched_at_;
  memory_.on_fetch(bytes, charged, filled < asked);
  messages_per_call_ = bytes > kCoalescedBytes ? kCoalescedMessages : kMaxMessages;
  return filled == asked;
}

int UdpReceiver::fetch_messages(size_t count) {
  for (int attempt = 0; attempt < kMaxAttempts; ++attempt) {
    const int received =
        recvmmsg(fd_, messages_.data(), static_cast<unsigned>(count), MSG_DONTWAIT, nullptr);
    if (received >= 0 || errno == EAGAIN) return received;
    if (errno != EINTR) drain_errors_();
  }
  return 0;
}

// False if there is no buffer for the message. A message that the kernel has not filled stays
// prepared.
bool UdpReceiver::prepare_message(size_t index) {
  if (prepared_[index]) return true;
  if (free_.empty()) return false;
  const uint32_t number = free_.back();
  free_.pop_back();
  Buffer& buffer = buffers_[number];
  if (buffer.bytes == nullptr) {
    buffer.bytes =
        std::make_unique_for_overwrite<std::byte[]>(kBufferBytes + kColors * kColorBytes);
    buffer.data = buffer.bytes.get() + number % kColors * kColorBytes;
  }
  buffer_of_[index] = number;
  slices_[index] = {buffer.data, kBufferBytes};
  msghdr& header = messages_[index].msg_hdr;
  header.msg_name = &buffer.sender.generic;
  header.msg_namelen = sizeof(buffer.sender);
  header.msg_iov = &slices_[index];
  header.msg_iovlen = 1;
  header.msg_control = controls_[index].bytes;
  header.msg_controllen = sizeof(controls_[index].bytes);
  header.msg_flags = 0;
  prepared_[index] = true;
  return true;
}

void UdpReceiver::take_message(size_t index) {
  prepared_[index] = false;
  msghdr& header = messages_[index].msg_hdr;
  const uint32_t number = buffer_of_[index];
  const size_t size = messages_[index].msg_len;
  if (size == 0 || (header.msg_flags & MSG_TRUNC) != 0) {
    free_.push_back(number);
    return;
  }
  size_t segment = size;
  Instant arrived = fetched_at_;
  // Linux does not coalesce datagrams that differ in the mark. Before commit 5babae777c61 of 2024
  // it did so over UDP; the first datagram's mark then counts for all.
  bool marked = false;
  for (cmsghdr* item = CMSG_FIRSTHDR(&header); item; item = CMSG_NXTHDR(&header, item)) {
    if (item->cmsg_level == IPPROTO_UDP && item->cmsg_type == UDP_GRO) {
      int value = 0;
      std::memcpy(&value, CMSG_DATA(item), sizeof(value));
      if (value > 0) segment = std::min(size, static_cast<size_t>(value));
    } else if (item->cmsg_level == SOL_SOCKET && item->cmsg_type == SO_TIMESTAMPNS) {
      timespec stamp{};
      std::memcpy(&stamp, CMSG_DATA(item), sizeof(stamp));
      arrived = received_at(stamp);
    } else if (IsMarked(*item)) {
      marked = true;
    }
  }
  Buffer& buffer = buffers_[number];
  const Address* from = address_of_(buffer.sender);
  if (from == nullptr) {
    buffer.stranger = ToAddress(buffer.sender);
    from = &buffer.stranger;
  }
  buffer.users = 1;
  arrivals_[end_arrival_++] = {number, 0, size, segment, from, arrived, marked};
}

// The stamp tells how long ago the datagram arrived. Its clock may have been set in between, so the
// result is never before the socket was last empty.
Instant UdpReceiver::received_at(const timespec& stamp) const {
  const Duration ago = stamp_clock_ - ToDuration(stamp);
  return std::max(fetched_at_ - std::max(ago, Duration{0}), emptied_at_);
}

size_t UdpReceiver::hand_out(std::span<RxDatagram> batch) {
  size_t count = 0;
  while (count < batch.size() && first_arrival_ < end_arrival_) {
    Arrival& arrival = arrivals_[first_arrival_];
    Buffer& buffer = buffers_[arrival.buffer];
    const size_t size = std::min(arrival.segment, arrival.size - arrival.position);
    batch[count++] = {{buffer.data + arrival.position, size},
                      arrival.from,
                      arrival.buffer,
                      arrival.received_at,
                      arrival.marked};
    ++buffer.users;
    arrival.position += size;
    if (arrival.position == arrival.size) {
      drop_user(arrival.buffer);
      ++first_arrival_;
    }
  }
  return count;
}

void UdpReceiver::release(std::span<const RxDatagram> batch) {
  for (const RxDatagram& datagram : batch) drop_user(datagram.lease);
}

void UdpReceiver::drop_user(uint32_t buffer) {
  ROCECOLL_CHECK(buffer < kBuffers && buffers_[buffer].users > 0);
  if (--buffers_[buffer].users == 0) free_.push_back(buffer);
}

}  // namespace rocecoll
