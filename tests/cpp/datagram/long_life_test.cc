// SPDX-License-Identifier: Apache-2.0
// What a transport meets within weeks: an endless number of strangers, and peers that restart under
// new addresses.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "base/monotonic_clock.h"
#include "datagram/failover_world.h"
#include "datagram/transport_world.h"

namespace rocecoll {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(DatagramLongLife, EveryStrangerGetsAResetHoweverManyCameBefore) {
  constexpr uint32_t kStrangers = 3000;
  SimWorld world(1);
  for (uint32_t i = 1; i <= kStrangers; ++i) {
    auto stranger = world.network.add_endpoint();
    std::array<std::byte, kPacketHeaderBytes> packet;
    WritePacketHeader(packet, {PacketType::kPacket, i, 0});
    SealPacket(packet, {});
    ASSERT_TRUE(stranger->send_to(world.addresses[0], packet));
    world.run_for(milliseconds(2));
    std::array<RxDatagram, 2> answers;
    ASSERT_EQ(stranger->receive(answers), 1u) << "stranger " << i;
    const auto header = ParsePacketHeader(answers[0].bytes);
    ASSERT_TRUE(header);
    EXPECT_EQ(header->type, PacketType::kReset);
    EXPECT_EQ(header->connection_id, i);
    stranger->release(std::span(answers).first(1));
  }
}

// The groups have peers that are gone, and each address is used once.
TEST(DatagramLongLife, PeersThatNeverComeBackAreForgotten) {
  constexpr uint32_t kPeers = 2500;
  auto udp = UdpPort::Open({}).take();
  UdpPort& port = *udp;
  DatagramTransport transport(std::move(udp), {});
  const auto address = [](uint32_t i) {
    const std::string host = "127.1." + std::to_string(i / 200) + "." + std::to_string(1 + i % 200);
    return ParseUdpAddress(host + ":9").value();
  };
  Instant now = MonotonicNow();
  std::array<Event, 64> events;
  uint32_t highest = 0;
  for (uint32_t i = 0; i < kPeers; ++i) {
    Result<Link*> link = transport.open(Between(0, 1, i + 1), address(i), seconds(5), now);
    ASSERT_TRUE(link.ok()) << link.status().message();
    highest = std::max(highest, port.add_peer(address(i)).value().index);
    transport.poll(now, events);
    link.value()->close(Status(StatusCode::kAborted, "no more"));
    const Instant limit = now + seconds(30);
    while (transport.lingering() && now < limit) {
      now = std::max(now + milliseconds(1), std::min(transport.next_deadline(), limit));
      transport.poll(now, events);
    }
    ASSERT_FALSE(transport.lingering());
  }
  EXPECT_LT(highest, EndpointTable::kMaxIdlePaths + 64);
}

TEST(DatagramLongLife, NoticesToAnybodyLeaveNoPeerBehind) {
  auto udp = UdpPort::Open({}).take();
  auto other = UdpPort::Open({}).take();
  UdpPort& port = *udp;
  DatagramTransport transport(std::move(udp), {});
  for (uint32_t i = 1; i <= 2000; ++i) {
    transport.notify(ParseUdpAddress("127.2.0.1:" + std::to_string(i)).value(), Text("the end"));
  }
  EXPECT_EQ(port.add_peer(other->address()).value().index, 0u);
}

TEST(DatagramLongLife, ARemovedPeersDatagramsStillNameIt) {
  auto a = UdpPort::Open({.segmentation_offload = false}).take();
  auto b = UdpPort::Open({}).take();
  auto c = UdpPort::Open({}).take();
  ASSERT_TRUE(a->add_peer(b->address()).ok());
  const Bytes body = RandomBytes(100, 1);
  // There are more datagrams than one call hands out, so some have been fetched and wait.
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(b->send_to(a->address(), body));
  std::array<RxDatagram, 1> one;
  size_t seen = 0;
  const auto deadline = std::chrono::steady_clock::now() + seconds(120);
  while (seen < 4 && std::chrono::steady_clock::now() < deadline) {
    if (a->receive(one) == 0) continue;
    EXPECT_EQ(*one[0].from, b->address());
    a->release(one);
    if (seen++ == 0) {
      a->remove_peer(a->add_peer(b->address()).value());
      ASSERT_TRUE(a->add_peer(c->address()).ok());
    }
  }
  EXPECT_EQ(seen, 4u);
  // Once none of its datagrams is lent, its place goes to another peer.
  EXPECT_EQ(a->receive(one), 0u);
  EXPECT_EQ(a->add_peer(b->address()).value().index, 0u);
}

TEST(DatagramLongLife, APeerOfTwoPortsIsForgottenAndFoundAgain) {
  FailoverWorld world({.count = 2});
  for (uint64_t group = 1; group <= 3; ++group) {
    auto [out, in] = world.connect(0, 1, group);
    ASSERT_TRUE(world.run([&] { return world.uses_ud(0, 1) && world.uses_ud(1, 0); }));
    ASSERT_TRUE(out->send_frame(Text("hello")));
    ASSERT_TRUE(world.run([&] { return world.record(in).frames.size() == 1; }));
    out->close(Status());
    in->close(Status());
    ASSERT_TRUE(world.run([&] { return !world.lingering(); }));
    world.run_for(milliseconds(500));
    world.ports[0]->remove_peer(world.peer(0, 1));
    EXPECT_FALSE(world.uses_ud(0, 1));
  }
}

}  // namespace
}  // namespace rocecoll
