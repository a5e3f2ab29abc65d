// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <deque>
#include <span>
#include <vector>

#include "transport/datagram/reliability/packet_wire.h"
#include "transport/port.h"
#include "transport/transport.h"

namespace rocecoll {

// Notices on their way into the port. Those that the port has no room for wait; otherwise, of a
// thousand ranks that are told of a failure at once, the last ones would never be reached.
class NoticeQueue {
 public:
  // Four floods of a group of 1024 ranks, about 2 MiB. Further notices are lost, as notices may be.
  static constexpr size_t kMaxWaiting = 4096;

  NoticeQueue(DatagramPort& port, TransportStats& stats) : port_(port), stats_(stats) {}

  void push(const Address& to, std::span<const std::byte> notice) {
    if (waiting_.size() == kMaxWaiting) return;
    std::array<std::byte, kPacketHeaderBytes> header;
    WritePacketHeader(header, {PacketType::kNotice, 0, 0});
    SealPacket(header, notice);
    Waiting& added = waiting_.emplace_back(to);
    added.packet.reserve(header.size() + notice.size());
    added.packet.assign(header.begin(), header.end());
    added.packet.insert(added.packet.end(), notice.begin(), notice.end());
  }
  // True if everything has been sent.
  bool send() {
    while (!waiting_.empty()) {
      const Waiting& next = waiting_.front();
      if (!port_.send_to(next.to, next.packet)) return false;
      ++stats_.packets_sent;
      stats_.bytes_sent += next.packet.size();
      waiting_.pop_front();
    }
    return true;
  }
  bool empty() const { return waiting_.empty(); }
  size_t size() const { return waiting_.size(); }

 private:
  struct Waiting {
    explicit Waiting(const Address& to) : to(to) {}
    const Address to;
    std::vector<std::byte> packet;
  };

  DatagramPort& port_;
  TransportStats& stats_;
  std::deque<Waiting> waiting_;
};

}  // namespace rocecoll
