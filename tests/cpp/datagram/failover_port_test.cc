// SPDX-License-Identifier: Apache-2.0
#include "transport/datagram/ud/failover_port.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/take_log.h"
#include "datagram/failover_world.h"
#include "datagram/scripted_peer.h"
#include "transport/datagram/udp/udp_address.h"
#include "transport/readable.h"

namespace rocecoll {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(FailoverPort, AsksAFewTimesThenRestsAndDataFlowsMeanwhile) {
  Scripted world;
  world.run(seconds(4));
  const size_t asked = world.hellos().size();
  EXPECT_GE(asked, 8u);
  EXPECT_LE(asked, PathChoice::kMaxHellos);
  EXPECT_GT(world.port->counts().datagrams_over_udp, 50u);
  world.run(seconds(60));
  EXPECT_LE(world.hellos().size(), 6 * PathChoice::kMaxHellos);
  EXPECT_TRUE(world.probes().empty());
}

TEST(FailoverPort, SaysNothingToPeersWithoutTraffic) {
  Scripted world;
  world.run(seconds(10), false);
  EXPECT_EQ(world.port->next_deadline(), kNever);
  // Packets that answer anybody do not count as traffic either.
  Bytes reset(kPacketHeaderBytes);
  WritePacketHeader(reset, {PacketType::kReset, 1, 0});
  const TxDatagram datagram{world.peer, reset, {}};
  EXPECT_EQ(world.port->send({&datagram, 1}), 1u);
  world.run(seconds(1), false);
  EXPECT_TRUE(world.hellos().empty());
  EXPECT_EQ(world.port->next_deadline(), kNever);
}

TEST(FailoverPort, FallsSilentAgainWhenTrafficEnds) {
  Scripted world;
  PathHello answer = {};
  world.run(milliseconds(2));
  answer = world.answer_to(world.hellos().at(0));
  answer.knows_receiver = false;  // the peer has no traffic for us
  Scripted::say(*world.peer_udp, *world.own_udp, Hello(answer));
  world.run(seconds(30), false);
  EXPECT_LE(world.hellos().size(), 2 * PathChoice::kMaxHellos);
  EXPECT_EQ(world.port->next_deadline(), kNever);
}

TEST(FailoverPort, ProbesAPathWithTheLargestDatagramAFewTimes) {
  Scripted world;
  world.lead_to_probing();
  world.run(seconds(2));
  const auto sent = Drain(*world.peer_ud);
  EXPECT_EQ(sent.size(), PathChoice::kMaxProbes);
  for (const Bytes& probe : sent) EXPECT_EQ(probe.size(), 4096u);
  EXPECT_FALSE(world.port->uses_ud(world.peer));
}

// Probes do not count during this time, and nobody is told that the path does not work.
TEST(FailoverPort, WaysThatTakeSecondsToFindAreWaitedForOverUdp) {
  TakeLog();
  FailoverWorld world({});
  for (SimPort* port : world.ud_ports) port->set_way_time(seconds(5));
  world.open_all();
  ASSERT_NO_FATAL_FAILURE(world.transfer(0, 1, 10'000));
  EXPECT_LT(world.now(), Instant{} + seconds(5));
  EXPECT_FALSE(world.uses_ud(0, 1));
  const auto proven = [&] { return world.uses_ud(0, 1) && world.uses_ud(1, 0); };
  EXPECT_TRUE(world.run(proven, seconds(10)));
  for (const LogEntry& entry : TakeLog()) {
    EXPECT_EQ(entry.severity, Severity::kInfo) << entry.text;
  }
}

// A gateway does so, or a bond whose other half takes over.
TEST(FailoverPort, APeerWithANewHardwareAddressIsFoundAgain) {
  for (const bool failover : {true, false}) {
    FailoverWorldOptions options;
    options.failover.failover = failover;
    options.connection.peer_timeout = seconds(60);
    FailoverWorld world(options);
    ASSERT_TRUE(world.prove());
    for (const uint32_t from : {0u, 1u}) {
      world.ud_ports[from]->move(world.ud_ports[1 - from]->endpoint());
    }
    ASSERT_NO_FATAL_FAILURE(world.transfer(0, 1, 10'000));
    const uint64_t over_ud = world.ports[0]->counts().datagrams_over_ud;
    const auto again = [&] { return world.uses_ud(0, 1) && world.uses_ud(1, 0); };
    // Only ports with traffic try again.
    for (int i = 0; i < 40 && !again(); ++i) {
      ASSERT_NO_FATAL_FAILURE(world.transfer(0, 1, 1'000));
      world.run_for(milliseconds(500));
    }
    EXPECT_TRUE(again()) << failover;
    ASSERT_NO_FATAL_FAILURE(world.transfer(0, 1, 10'000));
    EXPECT_GT(world.ports[0]->counts().datagrams_over_ud, over_ud);
  }
}

TEST(FailoverPort, APeerWithTooSmallAnMtuStaysOnUdp) {
  Scripted world;
  world.run(milliseconds(2));
  PathHello answer = world.answer_to(world.hellos().at(0));
  answer.datagram_bytes = 512;
  Scripted::say(*world.peer_udp, *world.own_udp, Hello(answer));
  world.run(seconds(5));
  EXPECT_TRUE(world.probes().empty());
}

TEST(FailoverPort, WhatIsTooLargeForUdGoesOverUdp) {
  Scripted world;
  world.lead_to_ud();
  Drain(*world.peer_udp);
  EXPECT_EQ(world.port->peer_limit(world.peer), 4096u);
  EXPECT_EQ(world.send(5000), 1u);
  EXPECT_EQ(world.send(4096), 1u);
  world.run(milliseconds(1), false);
  const auto over_udp = Drain(*world.peer_udp);
  ASSERT_EQ(over_udp.size(), 1u);
  EXPECT_EQ(over_udp[0].size(), 5000u);
}

// RoCE checks what it delivers, and UDP checks it less well. A packet that was built for RoCE and
// goes over UDP is sealed as a whole.
TEST(FailoverPort, OnlyWhatGoesOverUdReliesOnItsCheck) {
  Scripted world({}, true);
  EXPECT_FALSE(world.port->checks_payload(world.peer));
  world.lead_to_ud();
  Drain(*world.peer_udp);
  EXPECT_TRUE(world.port->checks_payload(world.peer));
  const auto send = [&](size_t payload_bytes) {
    Bytes header(kPacketHeaderBytes + 20);
    WritePacketHeader(header, {PacketType::kPacket, 1, 1});
    SealHeaders(header);
    const Bytes payload(payload_bytes, std::byte{7});
    const TxDatagram datagram{world.peer, header, payload};
    ASSERT_EQ(world.port->send({&datagram, 1}), 1u);
    world.run(milliseconds(1), false);
    EXPECT_TRUE(HasSealedHeaders(header));  // it may be sent again
  };
  send(1000);
  auto sent = Drain(*world.peer_ud);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_TRUE(HasSealedHeaders(sent[0]));
  EXPECT_TRUE(VerifyPacket(sent[0]));
  send(5000);  // too large for UD
  sent = Drain(*world.peer_udp);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_FALSE(HasSealedHeaders(sent[0]));
  EXPECT_TRUE(VerifyPacket(sent[0]));
  sent[0].back() ^= std::byte{1};
  EXPECT_FALSE(VerifyPacket(sent[0]));
}

TEST(FailoverPort, TransfersAreBitExactWhileUdAloneFindsWhatChanged) {
  FailoverWorldOptions options;
  options.ud_checks_payload = true;
  options.udp_wire.corrupt = options.ud_wire.corrupt = 0.02;
  FailoverWorld world(options);
  ASSERT_TRUE(world.prove());
  ASSERT_NO_FATAL_FAILURE(world.transfer(0, 1, 300'000, [&] { world.cut_both(); }));
  ASSERT_NO_FATAL_FAILURE(world.transfer(1, 0, 300'000, [&] { world.cut_both(false); }));
  EXPECT_GT(world.ports[0]->counts().datagrams_over_ud, 100u);
  EXPECT_GT(world.ports[0]->counts().datagrams_over_udp, 100u);
}

TEST(FailoverPort, TakesFromBothPortsFairlyAndGivesEachItsLeasesBack) {
  Scripted world;
  world.lead_to_ud();
  for (uint32_t i = 0; i < 100; ++i) {
    for (const bool ud : {false, true}) {
      Bytes bytes(50, std::byte{ud});
      Scripted::say(ud ? *world.peer_ud : *world.peer_udp, ud ? *world.own_ud : *world.own_udp,
                    bytes);
    }
  }
  world.queue.run_until(world.queue.now() + milliseconds(1));
  std::array<RxDatagram, 10> batch;
  size_t total = 0;
  while (const size_t count = world.port->receive(batch)) {
    total += count;
    const auto ud = std::ranges::count_if(std::span(batch).first(count), [&](const auto& datagram) {
      EXPECT_EQ(*datagram.from, world.peer_udp->address());
      return datagram.bytes[0] == std::byte{1};
    });
    EXPECT_GE(ud, static_cast<ptrdiff_t>(count / 3));
    EXPECT_LE(ud, static_cast<ptrdiff_t>(count - count / 3));
    EXPECT_EQ(world.own_udp->leased() + world.own_ud->leased(), count);
    std::ranges::reverse(std::span(batch).first(count));
    world.port->release(std::span(batch).first(count));
    EXPECT_EQ(world.own_udp->leased() + world.own_ud->leased(), 0u);
  }
  EXPECT_EQ(total, 200u);
}

TEST(FailoverPort, LimitsHoldForEitherPath) {
  EventQueue queue;
  SimNetwork network(queue, 1);
  const auto make = [&](size_t udp, size_t ud) {
    auto second =
        ud == 0 ? nullptr
                : network.add_endpoint(
                      {.max_datagram_bytes = ud, .max_burst = 32, .receive_buffer_bytes = 1 << 18});
    return FailoverPort::Make(network.add_endpoint({.max_datagram_bytes = udp}), std::move(second),
                              {}, [&queue] { return queue.now(); });
  };
  const PortLimits both = make(8192, 4096)->limits();
  EXPECT_EQ(both.max_datagram_bytes, 8192u);
  EXPECT_EQ(both.min_datagram_bytes, 1024u);
  EXPECT_EQ(both.max_burst, 64u);
  EXPECT_EQ(both.receive_buffer_bytes, size_t{1} << 18);
  EXPECT_EQ(make(8192, 0)->limits().min_datagram_bytes, 1024u);
  EXPECT_EQ(make(8192, 512)->limits().receive_buffer_bytes, size_t{1} << 20);  // not used
  EXPECT_EQ(make(600, 4096)->limits().min_datagram_bytes, 600u);
}

TEST(FailoverPort, SaysOnceWhichPathIsTakenAndWarnsWhenItIsLost) {
  TakeLog();
  FailoverWorld world({.count = 2});
  ASSERT_TRUE(world.prove());
  world.transfer(0, 1, 10'000);
  auto said = TakeLog();
  ASSERT_EQ(said.size(), 2u);
  EXPECT_EQ(said[0].severity, Severity::kInfo);
  EXPECT_NE(said[0].text.find("RoCE carries the traffic with sim:"), std::string::npos);
  world.cut_both();
  world.transfer(0, 1, 10'000);
  ASSERT_TRUE(world.run([&] { return !world.uses_ud(1, 0); }));
  world.run_for(seconds(30));  // the port tries again and again
  said = TakeLog();
  std::set<std::string> texts;
  for (const LogEntry& entry : said) {
    EXPECT_EQ(entry.severity, Severity::kWarning);
    EXPECT_TRUE(texts.insert(entry.text).second) << "said twice: " << entry.text;
  }
  EXPECT_NE(said.at(0).text.find("fallen silent"), std::string::npos) << said[0].text;
}

// Uses real sockets in place of both ports.
std::unique_ptr<FailoverPort> OverSockets(UdpPort** ud) {
  auto second = UdpPort::Open({}).take();
  *ud = second.get();
  const auto clock = [] { return Instant(std::chrono::steady_clock::now().time_since_epoch()); };
  return FailoverPort::Make(UdpPort::Open({}).take(), std::move(second), {}, clock);
}

TEST(FailoverPort, OneWaitHandleTellsOfBothPorts) {
  UdpPort* ud = nullptr;
  auto port = OverSockets(&ud);
  auto sender = UdpPort::Open({}).take();
  std::array<RxDatagram, 4> batch;
  for (const Address& to : {port->address(), ud->address(), port->address()}) {
    EXPECT_FALSE(WaitReadable(port->wait_handle(), 0));
    const Bytes bytes(100);
    const TxDatagram datagram{sender->add_peer(to).value(), bytes, {}};
    ASSERT_EQ(sender->send({&datagram, 1}), 1u);
    EXPECT_TRUE(WaitReadable(port->wait_handle(), 5000));
    port->release(std::span(batch).first(port->receive(batch)));
  }
}

class SocketWorld final : public RealTimeWorld {
 public:
  SocketWorld() {
    for (FailoverPort*& port : ports) {
      UdpPort* ud = nullptr;
      auto made = OverSockets(&ud);
      port = made.get();
      add(std::make_unique<DatagramTransport>(std::move(made), ConnectionOptions()));
    }
  }
  // Sockets accept packets for any address of the host, as between ranks that find they share one.
  void use_aliases() {
    for (Address& address : addresses) {
      const std::string port = address.text().substr(address.text().rfind(':'));
      address = ParseUdpAddress("127.0.0.2" + port).take();
    }
  }
  std::array<FailoverPort*, 2> ports{};
};

class FailoverSockets : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(All, FailoverSockets, testing::Bool(), [](const auto& aliases) {
  return std::string(aliases.param ? "UnderOtherAddresses" : "UnderTheirOwnAddresses");
});

TEST_P(FailoverSockets, UdCarriesTheTransfer) {
  SocketWorld world;
  if (GetParam()) world.use_aliases();
  const auto [out, in] = world.connect(0, 1);
  const PeerHandle peer = world.ports[0]->add_peer(world.addresses[1]).value();
  ASSERT_TRUE(world.run([&] { return world.ports[0]->uses_ud(peer); }));
  const Bytes source = RandomBytes(3 << 20, 1);
  Bytes target(source.size());
  Bytes copy = source;
  const RemoteSlice slice = in->expose({target.data(), target.size()}, 1);
  ASSERT_TRUE(out->write(slice, {copy.data(), copy.size()}, 1));
  ASSERT_TRUE(world.run([&, from = out, to = in] { return world.transferred(from, to, 1); }));
  EXPECT_EQ(target, source);
  const size_t largest = world.ports[0]->limits().max_datagram_bytes;
  EXPECT_GT(world.ports[0]->counts().datagrams_over_ud, source.size() / largest);
}

}  // namespace
}  // namespace rocecoll
