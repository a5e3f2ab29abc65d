// SPDX-License-Identifier: Apache-2.0
// Packets in and out of real UDP ports.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "transport/datagram/udp/udp_port.h"
#include "transport/readable.h"

namespace rocecoll {

inline std::unique_ptr<UdpPort> OpenUdp(const std::string& host, bool offload = true) {
  Result<std::unique_ptr<UdpPort>> port =
      UdpPort::Open({.host = host, .segmentation_offload = offload});
  EXPECT_TRUE(port.ok()) << port.status().message();
  return port.take();
}

inline bool Readable(UdpPort& port, int timeout_ms) {
  return WaitReadable(port.wait_handle(), timeout_ms);
}

struct Packet {
  std::vector<std::byte> bytes;
  Address from;
  bool marked = false;
};

// Collects what arrives, until `count` datagrams have come or two minutes have passed.
inline std::vector<Packet> Collect(UdpPort& port, size_t count) {
  std::vector<Packet> packets;
  std::array<RxDatagram, 7> batch;  // fewer than one system call may bring
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(120);
  while (packets.size() < count && std::chrono::steady_clock::now() < deadline) {
    const size_t received = port.receive(batch);
    for (size_t i = 0; i < received; ++i) {
      packets.push_back(
          {{batch[i].bytes.begin(), batch[i].bytes.end()}, *batch[i].from, batch[i].marked});
    }
    port.release({batch.data(), received});
    if (received == 0) Readable(port, 100);
  }
  return packets;
}

inline std::vector<std::byte> Pattern(size_t size, uint32_t seed) {
  std::vector<std::byte> bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 31 + seed * 7 + i / 251);
  return bytes;
}

// Sends one datagram of each size as header (up to 40 bytes) and payload, in one batch.
inline void SendSizes(UdpPort& from, PeerHandle to,
                      const std::vector<std::vector<std::byte>>& bodies) {
  std::vector<TxDatagram> batch;
  for (const auto& body : bodies) {
    const std::span<const std::byte> bytes(body);
    const size_t header = std::min<size_t>(40, bytes.size());
    batch.push_back({to, bytes.first(header), bytes.subspan(header)});
  }
  std::span<const TxDatagram> rest(batch);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(120);
  while (!rest.empty() && std::chrono::steady_clock::now() < deadline)
    rest = rest.subspan(from.send(rest));
  ASSERT_TRUE(rest.empty());
}

}  // namespace rocecoll
