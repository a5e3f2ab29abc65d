// SPDX-License-Identifier: Apache-2.0
// Tests of datagrams over real devices: a port that keeps what it receives.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "transport/verbs/ud_port.h"
#include "verbs/verbs_world.h"

namespace rocecoll {

// An address of the device that peers can reach, or nothing.
inline std::string GlobalAddress(const std::string& name, bool ipv4) {
  for (const DeviceInfo& device : ListDevices()) {
    if (device.name != name) continue;
    for (const GidEntry& entry : device.ports.at(0).gids) {
      const bool wanted = entry.type == GidType::kRoceV2 && entry.gid.is_ipv4() == ipv4;
      if (wanted && !entry.gid.is_link_local()) return ToText(entry.gid);
    }
  }
  return "";
}

class UdEnd {
 public:
  struct Packet {
    std::vector<std::byte> bytes;
    Address from;
  };

  UdEnd(const std::string& name, RdmaOptions options) {
    options.hca = "=" + name;
    auto opened = UdPort::Open(options);
    EXPECT_TRUE(opened.ok()) << opened.status().message();
    port = opened.take();
  }

  PeerHandle add(const Address& address) {
    const Result<PeerHandle> peer = port->add_peer(address);
    EXPECT_TRUE(peer.ok()) << peer.status().message();
    await_way(peer.value());
    return peer.value();
  }
  // Waits until the system knows where the peer is, or has given up.
  void await_way(PeerHandle peer) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (port->seeks_way(peer) && std::chrono::steady_clock::now() < deadline) {
      const bool idle = take() == 0 && port->seeks_way(peer) && port->arm();
      if (idle) WaitReadable(port->wait_handle(), 1000);
    }
    EXPECT_FALSE(port->seeks_way(peer));
  }

  // Sends all datagrams, each as a header of up to 40 bytes and a payload, and waits while buffers
  // are full.
  void send(PeerHandle to, const std::vector<std::vector<std::byte>>& bodies) {
    std::vector<TxDatagram> batch;
    for (const auto& body : bodies) {
      const std::span<const std::byte> bytes(body);
      const size_t header = std::min<size_t>(40, bytes.size());
      batch.push_back({to, bytes.first(header), bytes.subspan(header)});
    }
    std::span<const TxDatagram> rest(batch);
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (!rest.empty() && std::chrono::steady_clock::now() < deadline) {
      rest = rest.subspan(port->send(rest));
    }
    ASSERT_TRUE(rest.empty());
  }

  // Waits until `count` packets have come in all.
  bool await(size_t count) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (packets.size() < count && std::chrono::steady_clock::now() < deadline) {
      if (take() == 0 && port->arm()) WaitReadable(port->wait_handle(), 1000);
    }
    EXPECT_EQ(packets.size(), count);
    return packets.size() == count;
  }

  size_t take() {
    // This is the batch of a transport whose other port has filled it before.
    std::array<RxDatagram, 7> batch;
    batch.fill({.bytes = {}, .received_at = Instant{} + std::chrono::seconds(1), .marked = true});
    const size_t received = port->receive(batch);
    for (const RxDatagram& datagram : std::span(batch).first(received)) {
      EXPECT_EQ(datagram.received_at, Instant{});
      EXPECT_FALSE(datagram.marked);
      packets.push_back({{datagram.bytes.begin(), datagram.bytes.end()}, *datagram.from});
    }
    port->release(std::span(batch).first(received));
    return received;
  }

  std::unique_ptr<DatagramPort> port;
  std::vector<Packet> packets;
};

}  // namespace rocecoll
