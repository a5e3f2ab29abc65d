// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/ud_port.h"

#include <gtest/gtest.h>

#include <tuple>

#include "verbs/ud_world.h"

namespace rocecoll {
namespace {

using Bodies = std::vector<std::vector<std::byte>>;

class UdPortTest : public testing::TestWithParam<std::tuple<Devices, bool>> {
 protected:
  void SetUp() override {
    const auto [devices, ipv4] = GetParam();
    const std::string reason = NoDevices(devices == Devices::kOneDevice ? 1 : 2);
    if (!reason.empty()) GTEST_SKIP() << reason;
    if (devices == Devices::kTwoDevices && !WireFaults().empty()) {
      GTEST_SKIP() << "the wire has faults (" << WireFaults() << "), and nobody here sends again";
    }
    const std::vector<std::string> names = UsableDevices();
    a_name_ = names[0];
    b_name_ = names[devices == Devices::kOneDevice ? 0 : 1];
    for (const std::string& name : {a_name_, b_name_}) {
      if (GlobalAddress(name, ipv4).empty()) {
        GTEST_SKIP() << name << " has no global IPv" << (ipv4 ? 4 : 6) << " GID";
      }
    }
  }

  void open(RdmaOptions a_options = {}, RdmaOptions b_options = {}) {
    const bool ipv4 = std::get<1>(GetParam());
    a_options.host = GlobalAddress(a_name_, ipv4);
    b_options.host = GlobalAddress(b_name_, ipv4);
    a_ = std::make_unique<UdEnd>(a_name_, a_options);
    b_ = std::make_unique<UdEnd>(b_name_, b_options);
    to_b_ = a_->add(b_->port->address());
  }

  std::string a_name_;
  std::string b_name_;
  std::unique_ptr<UdEnd> a_;
  std::unique_ptr<UdEnd> b_;
  PeerHandle to_b_;
};

INSTANTIATE_TEST_SUITE_P(
    All, UdPortTest,
    testing::Combine(testing::Values(Devices::kOneDevice, Devices::kTwoDevices), testing::Bool()),
    [](const auto& param) {
      return Name(std::get<0>(param.param)) + (std::get<1>(param.param) ? "Ipv4" : "Ipv6");
    });

TEST_P(UdPortTest, CarriesEverySizeInOrderBitForBit) {
  open();
  const size_t mtu = a_->port->limits().max_datagram_bytes;
  EXPECT_EQ(a_->port->peer_limit(to_b_), mtu);
  Bodies bodies;
  for (size_t size : {size_t{1}, size_t{8}, size_t{40}, size_t{41}, size_t{127}, size_t{128},
                      size_t{129}, size_t{1000}, mtu - 1, mtu}) {
    bodies.push_back(Pattern(size, static_cast<uint32_t>(size)));
  }
  a_->send(to_b_, bodies);
  ASSERT_TRUE(b_->await(bodies.size()));
  for (size_t i = 0; i < bodies.size(); ++i) {
    EXPECT_EQ(b_->packets[i].bytes, bodies[i]) << i;
    EXPECT_EQ(b_->packets[i].from, a_->port->address());
  }
}

TEST_P(UdPortTest, AStrangerCanBeAnswered) {
  open();
  a_->send(to_b_, {Pattern(100, 1)});
  ASSERT_TRUE(b_->await(1));
  const PeerHandle to_a = b_->add(b_->packets[0].from);
  EXPECT_EQ(b_->add(a_->port->address()).index, to_a.index);
  b_->send(to_a, {Pattern(200, 2)});
  ASSERT_TRUE(a_->await(1));
  EXPECT_EQ(a_->packets[0].bytes, Pattern(200, 2));
  EXPECT_EQ(a_->packets[0].from, b_->port->address());
}

TEST_P(UdPortTest, IgnoresPacketsWithAWrongQueueKey) {
  open();
  QueuePairAddress forged =
      ToQueuePairAddress(b_->port->address(), QueuePairAddress::Kind::kDatagrams).take();
  forged.packet_number_or_key ^= 1;
  const PeerHandle wrong = a_->add(ToAddress(forged));
  EXPECT_NE(wrong.index, to_b_.index);
  a_->send(wrong, {Pattern(100, 1)});
  a_->send(to_b_, {Pattern(100, 2)});
  ASSERT_TRUE(b_->await(1));
  EXPECT_EQ(b_->packets[0].bytes, Pattern(100, 2));
  EXPECT_EQ(b_->take(), 0u);
}

TEST_P(UdPortTest, ALimitIsTheSmallerMtuAndLongerDatagramsAreLost) {
  open({}, {.max_mtu_bytes = 1024});
  EXPECT_EQ(a_->port->peer_limit(to_b_), 1024u);
  EXPECT_EQ(b_->port->limits().max_datagram_bytes, 1024u);
  a_->send(to_b_, {Pattern(1025, 1), Pattern(1024, 2), Pattern(1025, 3)});
  ASSERT_TRUE(b_->await(1));
  EXPECT_EQ(b_->packets[0].bytes, Pattern(1024, 2));
}

TEST_P(UdPortTest, WhatTheReceiverDoesNotTakeInTimeIsLostAndNothingElse) {
  open();
  const Bodies burst(3000, Pattern(1024, 1));
  a_->send(to_b_, burst);
  // Take all that have come. Datagrams may still be in flight, so go on until the last one.
  a_->send(to_b_, Bodies(64, Pattern(1000, 2)));
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  bool last = false;
  while (!last && std::chrono::steady_clock::now() < deadline) {
    if (b_->take() == 0) a_->send(to_b_, {Pattern(10, 3)});
    last = !b_->packets.empty() && b_->packets.back().bytes == Pattern(10, 3);
  }
  ASSERT_TRUE(last);
  EXPECT_GT(b_->packets.size(), 500u);
  for (const UdEnd::Packet& packet : b_->packets) {
    EXPECT_TRUE(packet.bytes == burst[0] || packet.bytes == Pattern(1000, 2) ||
                packet.bytes == Pattern(10, 3));
  }
  EXPECT_TRUE(b_->port->health().ok());
}

TEST_P(UdPortTest, LeasedDatagramsStayAsTheyAre) {
  open();
  Bodies bodies;
  for (uint32_t i = 0; i < 50; ++i) bodies.push_back(Pattern(1024, i));
  a_->send(to_b_, bodies);
  std::vector<RxDatagram> leased(bodies.size());
  size_t received = 0;
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (received < leased.size() && std::chrono::steady_clock::now() < deadline) {
    received += b_->port->receive(std::span(leased).subspan(received));
  }
  ASSERT_EQ(received, leased.size());
  // Goes several times round the ring.
  for (int round = 0; round < 60; ++round) {
    a_->send(to_b_, Bodies(50, Pattern(1024, 99)));
    ASSERT_TRUE(b_->await(static_cast<size_t>(round + 1) * 50));
  }
  for (size_t i = 0; i < leased.size(); ++i) {
    EXPECT_TRUE(std::equal(leased[i].bytes.begin(), leased[i].bytes.end(), bodies[i].begin()));
  }
  b_->port->release(leased);
}

TEST_P(UdPortTest, TheWaitHandleIsQuietUntilSomethingComes) {
  open();
  ASSERT_TRUE(b_->port->arm());
  EXPECT_FALSE(WaitReadable(b_->port->wait_handle(), 50));
  for (size_t round = 1; round <= 2; ++round) {
    a_->send(to_b_, {Pattern(100, 1)});
    EXPECT_TRUE(WaitReadable(b_->port->wait_handle(), 20000));
    EXPECT_FALSE(b_->port->arm());  // call receive() first
    ASSERT_TRUE(b_->await(round));
    ASSERT_TRUE(b_->port->arm());
    EXPECT_FALSE(WaitReadable(b_->port->wait_handle(), 50));
  }
}

TEST_P(UdPortTest, AddsEveryPeerOnceAndRefusesOthers) {
  open();
  EXPECT_EQ(a_->add(b_->port->address()).index, to_b_.index);
  QueuePairAddress other =
      ToQueuePairAddress(b_->port->address(), QueuePairAddress::Kind::kDatagrams).take();
  other.mtu_bytes = 512;
  const auto refuse = [this](const Address& address) {
    const Result<PeerHandle> peer = a_->port->add_peer(address);
    EXPECT_EQ(peer.status().code(), StatusCode::kInvalidArgument);
  };
  // The peer is identified by its numbers, whatever it says about its MTU.
  EXPECT_EQ(a_->add(ToAddress(other)).index, to_b_.index);
  other.number ^= 1;
  refuse(ToAddress(other));
  other.mtu_bytes = 1024;
  other.kind = QueuePairAddress::Kind::kConnected;
  refuse(ToAddress(other));
  other.kind = QueuePairAddress::Kind::kDatagrams;
  EXPECT_NE(a_->add(ToAddress(other)).index, to_b_.index);
  other.gid = ParseGid(other.gid.is_ipv4() ? "2001:db8::1" : "192.0.2.1").value();
  refuse(ToAddress(other));
  refuse(Address());
}

TEST_P(UdPortTest, ManyPortsComeAndGo) {
  open();
  for (int cycle = 0; cycle < 50; ++cycle) {
    UdEnd passing(a_name_, {.host = GlobalAddress(a_name_, std::get<1>(GetParam()))});
    passing.send(passing.add(b_->port->address()), {Pattern(64, 1)});
    b_->packets.clear();
    ASSERT_TRUE(b_->await(1));
    EXPECT_EQ(b_->packets[0].from, passing.port->address());
  }
}

TEST(UdReceiver, FindsTheSenderInTheIpHeader) {
  std::array<std::byte, kRoutingHeaderBytes> header{};
  EXPECT_EQ(SenderOf(header, true), std::nullopt);
  EXPECT_EQ(SenderOf(header, false), std::nullopt);
  header[20] = std::byte{0x45};
  for (size_t i = 0; i < 4; ++i) header[32 + i] = static_cast<std::byte>(10 + i);
  ASSERT_TRUE(SenderOf(header, true).has_value());
  EXPECT_EQ(ToText(*SenderOf(header, true)), "10.11.12.13");
  EXPECT_EQ(SenderOf(header, false), std::nullopt);
  header = {};
  header[0] = std::byte{0x6f};
  for (size_t i = 0; i < 16; ++i) header[8 + i] = static_cast<std::byte>(i);
  ASSERT_TRUE(SenderOf(header, false).has_value());
  EXPECT_EQ(ToText(*SenderOf(header, false)), "1:203:405:607:809:a0b:c0d:e0f");
  EXPECT_EQ(SenderOf(header, true), std::nullopt);
}

}  // namespace
}  // namespace rocecoll
