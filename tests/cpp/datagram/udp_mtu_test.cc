// SPDX-License-Identifier: Apache-2.0
// UDP ports on routes whose MTU changes or is small, in a network namespace of their own.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "datagram/own_network.h"
#include "datagram/transport_world.h"
#include "datagram/udp_packets.h"

namespace rocecoll {
namespace {

constexpr size_t kEthernetPayload = 1500 - 28;

void SendTo(UdpPort& from, const UdpPort& to, const std::vector<std::vector<std::byte>>& bodies) {
  SendSizes(from, from.add_peer(to.address()).value(), bodies);
}

TEST(UdpMtu, ARouteThatShrinksLowersTheLimitAndLosesNothingOnLoopback) {
  const bool ran = InOwnNetwork({"ip link set lo up"}, [] {
    auto a = OpenUdp("127.0.0.1");
    auto b = OpenUdp("127.0.0.1");
    const PeerHandle to = a->add_peer(b->address()).value();
    EXPECT_EQ(a->peer_limit(to), a->limits().max_datagram_bytes);
    ASSERT_TRUE(rocecoll::Run("ip link set lo mtu 1500"));
    // The segments have a size that the route no longer accepts, so the kernel refuses the message.
    const std::vector<std::vector<std::byte>> bodies(20, Pattern(8192, 1));
    SendTo(*a, *b, bodies);
    EXPECT_EQ(a->peer_limit(to), kEthernetPayload);
    const auto got = Collect(*b, bodies.size());
    ASSERT_EQ(got.size(), bodies.size());
    for (const Packet& packet : got) EXPECT_EQ(packet.bytes, bodies[0]);
  });
  if (!ran) GTEST_SKIP() << "no network namespaces here";
}

TEST(UdpMtu, ASmallRouteToOnePeerLeavesTheOthersTheirTrains) {
  const bool ran = InOwnNetwork({"ip link set lo up"}, [] {
    auto a = OpenUdp("127.0.0.1");
    auto narrow = OpenUdp("127.0.0.2");
    auto wide = OpenUdp("127.0.0.3");
    if (!a->limits().segmentation_offload) return;
    const PeerHandle to = a->add_peer(narrow->address()).value();
    EXPECT_EQ(a->peer_limit(to), a->limits().max_datagram_bytes);
    ASSERT_TRUE(rocecoll::Run("ip route add local 127.0.0.2 dev lo table local mtu 1500"));
    const std::vector<std::vector<std::byte>> bodies(7, Pattern(8192, 1));
    SendTo(*a, *narrow, bodies);
    EXPECT_EQ(Collect(*narrow, bodies.size()).size(), bodies.size());
    EXPECT_EQ(a->peer_limit(to), kEthernetPayload);
    // Both peers get trains. The datagrams of one train arrive in one buffer.
    for (const auto& [port, size] : {std::pair(&wide, size_t{8192}), {&narrow, kEthernetPayload}}) {
      SendTo(*a, **port, std::vector<std::vector<std::byte>>(7, Pattern(size, 2)));
      ASSERT_TRUE(Readable(**port, 10000));
      std::array<RxDatagram, 16> batch;
      ASSERT_EQ((*port)->receive(batch), 7u) << size;
      for (size_t i = 1; i < 7; ++i) EXPECT_EQ(batch[i].lease, batch[0].lease) << size;
      (*port)->release({batch.data(), 7});
    }
  });
  if (!ran) GTEST_SKIP() << "no network namespaces here";
}

}  // namespace
}  // namespace rocecoll
