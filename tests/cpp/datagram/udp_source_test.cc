// SPDX-License-Identifier: Apache-2.0
// On hosts with several addresses, datagrams come from the address that peers were told.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "datagram/own_network.h"
#include "datagram/udp_packets.h"

namespace rocecoll {
namespace {

// IPv6 addresses and the routes to them begin to work only some time after they were requested.
void WaitForRoute(const std::string& from, const std::string& to) {
  const UdpEndpoint source = ParseUdpHost(from, 9).value();
  const UdpEndpoint target = ParseUdpHost(to, 9).value();
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  bool there = false;
  while (!there && std::chrono::steady_clock::now() < deadline) {
    const int out = socket(source.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0);
    const int in = socket(source.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0);
    pollfd arrival{in, POLLIN, 0};
    there = bind(out, &source.generic, source.size()) == 0 &&
            bind(in, &target.generic, target.size()) == 0 &&
            sendto(out, "?", 1, 0, &target.generic, target.size()) == 1 &&
            poll(&arrival, 1, 20) == 1;
    close(out);
    close(in);
    if (!there) poll(nullptr, 0, 1);
  }
  ASSERT_TRUE(there) << from << " to " << to;
}

// Covers trains, single datagrams, and those to an address that does not belong to a peer.
void ExpectSource(UdpPort& from, UdpPort& to, const Address& reached, const Address& source) {
  SCOPED_TRACE(reached.text() + " from " + source.text());
  const PeerHandle peer = from.add_peer(reached).value();
  const std::vector<std::byte> body(1000);
  const std::vector<TxDatagram> train(5, {peer, body, {}});
  ASSERT_EQ(from.send(train), train.size());
  ASSERT_EQ(from.send({train.data(), 1}), 1u);
  ASSERT_TRUE(from.send_to(reached, body));
  const auto packets = Collect(to, 7);
  ASSERT_EQ(packets.size(), 7u);
  for (const Packet& packet : packets) EXPECT_EQ(packet.from.text(), source.text());
}

TEST(UdpSource, IsTheAddressThatPeersWereTold) {
  for (const bool offload : {false, true}) {
    auto a = OpenUdp("127.0.0.2", offload);
    auto b = OpenUdp("127.0.0.1", offload);
    ExpectSource(*a, *b, b->address(), a->address());
    ExpectSource(*b, *a, a->address(), b->address());
  }
}

TEST(UdpSource, IsOneOfSeveralAddressesIfThatWasTold) {
  const bool ran = InOwnNetwork(
      {"ip link set lo up", "ip addr add 10.9.0.1/32 dev lo", "ip addr add 10.9.0.3/32 dev lo",
       "ip addr add fd00:9::1/128 dev lo nodad", "ip addr add fd00:9::3/128 dev lo nodad"},
      [] {
        for (const auto& [own, other] :
             {std::pair("10.9.0.3", "10.9.0.1"), std::pair("fd00:9::3", "fd00:9::1")}) {
          WaitForRoute(own, other);
          WaitForRoute(other, own);
          auto a = OpenUdp(own);
          auto b = OpenUdp(other);
          ExpectSource(*a, *b, b->address(), a->address());
          // Ranks on this host know each other by loopback addresses.
          const std::string loopback = std::string(own) == "10.9.0.3" ? "127.0.0.1:" : "[::1]:";
          const auto local = [&](UdpPort& port) {
            const uint16_t number = ToUdpEndpoint(port.address()).value().port();
            return ParseUdpAddress(loopback + std::to_string(number)).value();
          };
          ExpectSource(*a, *b, local(*b), local(*a));
        }
      });
  if (!ran) GTEST_SKIP() << "no network namespaces here";
}

// The address comes back, for example with a renewed DHCP lease. Nothing that was sent in between
// is left over, and trains are sent as trains again.
TEST(UdpSource, OutlivesTheLossOfTheAddress) {
  const bool ran = InOwnNetwork(
      {"ip link set lo up", "ip addr add 10.9.0.1/32 dev lo", "ip addr add 10.9.0.3/32 dev lo"},
      [] {
        auto a = OpenUdp("10.9.0.3");
        auto b = OpenUdp("10.9.0.1");
        const PeerHandle peer = a->add_peer(b->address()).value();
        const std::vector<std::byte> body(1000);
        const std::vector<TxDatagram> train(20, {peer, body, {}});
        ASSERT_TRUE(rocecoll::Run("ip addr del 10.9.0.3/32 dev lo"));
        EXPECT_EQ(a->send(train), train.size());  // and is lost
        ASSERT_TRUE(rocecoll::Run("ip addr add 10.9.0.3/32 dev lo"));
        ASSERT_EQ(a->send(train), train.size());
        std::array<RxDatagram, 64> batch;
        ASSERT_TRUE(Readable(*b, 10'000));
        const size_t got = b->receive(batch);
        EXPECT_EQ(got, train.size());
        if (a->limits().segmentation_offload) {
          EXPECT_EQ(batch[1].lease, batch[0].lease);
        }
        b->release(std::span(batch).first(got));
      });
  if (!ran) GTEST_SKIP() << "no network namespaces here";
}

}  // namespace
}  // namespace rocecoll
