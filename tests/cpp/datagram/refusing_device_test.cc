// SPDX-License-Identifier: Apache-2.0
// What the kernel does when a device sends more slowly than it is given data: UdpPort on a veth
// pair with a token bucket. There is no host behind the device; the host itself is reached all the
// same.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "datagram/own_network.h"
#include "transport/datagram/udp/udp_port.h"
#include "transport/readable.h"

namespace rocecoll {
namespace {

using std::chrono::seconds;
using std::chrono::steady_clock;

std::vector<std::string> Device(const std::string& shaper) {
  return {"ip link set lo up",
          "ip link add slow type veth peer name far",
          "ip addr add 10.9.0.1/24 dev slow",
          "ip link set slow up",
          "ip link set far up",
          "ip neigh add 10.9.0.2 lladdr 02:00:00:00:00:02 dev slow",
          "tc qdisc replace dev slow root tbf " + shaper};
}

size_t Drain(UdpPort& port, size_t count) {
  std::array<RxDatagram, 64> batch;
  const auto deadline = steady_clock::now() + seconds(120);
  size_t got = 0;
  while (got < count && steady_clock::now() < deadline) {
    const size_t received = port.receive(batch);
    port.release(std::span(batch).first(received));
    got += received;
    if (received == 0) WaitReadable(port.wait_handle(), 100);
  }
  return got;
}

TEST(RefusingDevice, ItsFullQueueHoldsUpNobodyElse) {
  for (const bool offload : {false, true}) {
    const bool ran = InOwnNetwork(Device("rate 8kbit burst 1600 limit 3000"), [&] {
      auto port = UdpPort::Open({.host = "10.9.0.1", .segmentation_offload = offload}).take();
      auto alive = UdpPort::Open({.host = "10.9.0.1"}).take();
      const PeerHandle slow = port->add_peer(ParseUdpAddress("10.9.0.2:4000").value()).value();
      const PeerHandle good = port->add_peer(alive->address()).value();
      const std::vector<std::byte> body(1000);
      std::vector<TxDatagram> batch;
      for (int i = 0; i < 100; ++i) batch.push_back({i % 10 == 9 ? good : slow, body, {}});
      EXPECT_EQ(port->send(batch), batch.size()) << offload;
      EXPECT_EQ(Drain(*alive, 10), 10u) << offload;
    });
    if (!ran) GTEST_SKIP() << "no network namespaces with veth and tbf here";
  }
}

TEST(RefusingDevice, AFullSocketBufferIsNoLoss) {
  const bool ran = InOwnNetwork(Device("rate 8mbit burst 1600 limit 100mb"), [] {
    auto port = UdpPort::Open({.host = "10.9.0.1", .socket_buffer_bytes = 64 * 1024}).take();
    const PeerHandle slow = port->add_peer(ParseUdpAddress("10.9.0.2:4000").value()).value();
    const std::vector<std::byte> body(1000);
    const std::vector<TxDatagram> batch(1000, {slow, body, {}});
    std::span<const TxDatagram> rest(batch);
    int refusals = 0;
    const auto deadline = steady_clock::now() + seconds(120);
    while (!rest.empty() && steady_clock::now() < deadline) {
      const size_t sent = port->send(rest);
      rest = rest.subspan(sent);
      refusals += !rest.empty();
    }
    EXPECT_TRUE(rest.empty());
    EXPECT_GT(refusals, 0);
  });
  if (!ran) GTEST_SKIP() << "no network namespaces with veth and tbf here";
}

}  // namespace
}  // namespace rocecoll
