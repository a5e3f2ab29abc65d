// SPDX-License-Identifier: Apache-2.0
// Receives datagrams from the socket: a few large buffers per system call, each of which the kernel
// may fill with many equal-sized datagrams of one sender (UDP_GRO).
#pragma once

#include <sys/socket.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "transport/datagram/udp/packet_memory.h"
#include "transport/datagram/udp/udp_address.h"
#include "transport/port.h"

namespace rocecoll {

class UdpSocket;

class UdpReceiver {
 public:
  // `address_of` returns the address of a known peer, else null. `drain_errors` empties the
  // socket's error queue.
  using AddressOf = std::function<const Address*(const UdpEndpoint&)>;
  UdpReceiver(const UdpSocket& socket, AddressOf address_of, std::function<void()> drain_errors);

  // As in DatagramPort. Skips empty datagrams, since no packet is empty.
  size_t receive(std::span<RxDatagram> batch);
  void release(std::span<const RxDatagram> batch);
  // Whether nothing is lent and everything fetched has been handed out.
  bool idle() const {
    return free_.size() + static_cast<size_t>(std::ranges::count(prepared_, true)) == kBuffers;
  }
  // How much may be in flight without drops, as far as is known.
  size_t room_bytes() const { return memory_.payload_bytes(); }

 private:
  static constexpr size_t kBuffers = 64;
  static constexpr size_t kBufferBytes = 64 * 1024;
  static constexpr size_t kMaxMessages = 16;
  // If buffers were a power of two apart, their beginnings, which are all that single packets fill,
  // would share a few sets of every cache.
  static constexpr size_t kColors = 16;
  static constexpr size_t kColorBytes = 1536;
  struct Buffer {
    std::unique_ptr<std::byte[]> bytes;  // allocated at first use
    std::byte* data = nullptr;           // kBufferBytes within bytes
    uint32_t users = 0;                  // current leases, plus one while it waits in arrivals_
    UdpEndpoint sender;
    Address stranger;  // the sender's address if `address_of` does not know it
  };
  // A filled buffer that has not been handed out completely.
  struct Arrival {
    uint32_t buffer = 0;
    size_t position = 0;
    size_t size = 0;
    size_t segment = 0;
    const Address* from = nullptr;
    Instant received_at{};
    bool marked = false;
  };
  // Room for UDP_GRO, SO_TIMESTAMPNS and IP_TOS or IPV6_TCLASS, with a reserve.
  struct alignas(cmsghdr) Control {
    char bytes[2 * CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(timespec)) + 64];
  };

  // Makes one system call. True if there may be more.
  bool fetch();
  int fetch_messages(size_t count);
  bool prepare_message(size_t index);
  void take_message(size_t index);
  Instant received_at(const timespec& stamp) const;
  size_t hand_out(std::span<RxDatagram> batch);
  void drop_user(uint32_t buffer);

  const int fd_;
  PacketMemory memory_;
  const AddressOf address_of_;
  const std::function<void()> drain_errors_;
  std::array<Buffer, kBuffers> buffers_;
  std::vector<uint32_t> free_;  // last in, first out: the warmest buffer is filled next
  std::array<mmsghdr, kMaxMessages> messages_{};
  std::array<iovec, kMaxMessages> slices_{};
  std::array<Control, kMaxMessages> controls_{};
  std::array<uint32_t, kMaxMessages> buffer_of_{};  // of each message
  std::array<bool, kMaxMessages> prepared_{};  // the message has a buffer for the kernel to fill
  std::array<Arrival, kMaxMessages> arrivals_{};
  size_t first_arrival_ = 0;
  size_t end_arrival_ = 0;
  size_t messages_per_call_ = kMaxMessages;
  // The time of the latest system call, by the port's clock and by the clock of the kernel's
  // stamps, which may be set at any time.
  Instant fetched_at_{};
  Duration stamp_clock_{};
  Instant emptied_at_{};  // nothing that arrived before is still in the socket
};

}  // namespace rocecoll
