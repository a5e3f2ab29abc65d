// SPDX-License-Identifier: Apache-2.0
#include "transport/sim/sim_network.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <memory>
#include <vector>

#include "base/bytes.h"
#include "transport/sim/sim_port.h"

namespace rocecoll {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

std::vector<std::byte> Numbered(uint32_t number, size_t size = 64) {
  std::vector<std::byte> bytes(size);
  StoreLe(bytes.data(), number);
  return bytes;
}

void Send(SimPort& from, SimPort& to, std::span<const std::byte> bytes) {
  TxDatagram datagram{from.add_peer(to.address()).value(), bytes.first(8), bytes.subspan(8)};
  ASSERT_EQ(from.send({&datagram, 1}), 1u);
}

std::vector<std::vector<std::byte>> Drain(SimPort& port) {
  std::vector<std::vector<std::byte>> all;
  std::array<RxDatagram, 16> batch;
  while (size_t count = port.receive(batch)) {
    for (size_t i = 0; i < count; ++i)
      all.emplace_back(batch[i].bytes.begin(), batch[i].bytes.end());
    port.release({batch.data(), count});
  }
  return all;
}

TEST(SimNetwork, DeliversAfterLatencyWithTheSendersAddress) {
  EventQueue queue;
  SimNetwork network(queue, 1);
  auto a = network.add_endpoint();
  auto b = network.add_endpoint();
  const auto bytes = Numbered(7);
  Send(*a, *b, bytes);
  queue.run_until(Instant(microseconds(9)));
  EXPECT_TRUE(Drain(*b).empty());
  queue.run_until(Instant(microseconds(10)));
  std::array<RxDatagram, 4> batch;
  ASSERT_EQ(b->receive(batch), 1u);
  EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), batch[0].bytes.begin(), batch[0].bytes.end()));
  EXPECT_EQ(*batch[0].from, a->address());
  EXPECT_EQ(b->leased(), 1u);
  b->release({batch.data(), 1});
  EXPECT_EQ(b->leased(), 0u);
}

TEST(SimNetwork, BandwidthSpacesDatagramsAndTheQueueIsBounded) {
  EventQueue queue;
  SimWire wire;
  wire.latency = Duration{0};
  wire.bytes_per_second = 1e6;  // 1000 bytes take 1 ms
  wire.queue_bytes = 4500;
  SimNetwork network(queue, 1, wire);
  auto a = network.add_endpoint();
  auto b = network.add_endpoint();
  for (uint32_t i = 0; i < 10; ++i) Send(*a, *b, Numbered(i, 1000));
  queue.run_until(Instant(microseconds(2500)));
  EXPECT_EQ(Drain(*b).size(), 2u);
  queue.run_until(Instant(milliseconds(100)));
  EXPECT_EQ(Drain(*b).size(), 3u);
  EXPECT_EQ(network.stats().dropped, 5u);
}

TEST(SimNetwork, FaultsHappenAboutAsOftenAsAsked) {
  EventQueue queue;
  SimWire wire;
  wire.loss = 0.2;
  wire.duplicate = 0.1;
  wire.corrupt = 0.1;
  SimNetwork network(queue, 5, wire);
  auto a = network.add_endpoint();
  auto b = network.add_endpoint({.receive_buffer_bytes = 1 << 24});
  const int count = 10000;
  const auto bytes = Numbered(0x55);
  for (int i = 0; i < count; ++i) Send(*a, *b, bytes);
  queue.run_until(Instant(milliseconds(1)));
  const auto got = Drain(*b);
  EXPECT_NEAR(static_cast<double>(got.size()), count * 0.8 * 1.1, 250);
  int corrupted = 0;
  for (const auto& datagram : got) {
    int flipped = 0;
    for (size_t i = 0; i < datagram.size(); ++i) {
      flipped += std::popcount(static_cast<uint8_t>(datagram[i] ^ bytes[i]));
    }
    ASSERT_LE(flipped, 1);
    corrupted += flipped;
  }
  EXPECT_NEAR(corrupted, count * 0.8 * 0.1, 120);
}

TEST(SimNetwork, ReorderingChangesTheOrderOnly) {
  EventQueue queue;
  SimWire wire;
  wire.reorder = 0.3;
  SimNetwork network(queue, 9, wire);
  auto a = network.add_endpoint();
  auto b = network.add_endpoint();
  for (uint32_t i = 0; i < 500; ++i) Send(*a, *b, Numbered(i));
  queue.run_until(Instant(milliseconds(1)));
  std::vector<uint32_t> numbers;
  for (const auto& datagram : Drain(*b)) numbers.push_back(LoadLe<uint32_t>(datagram.data()));
  ASSERT_EQ(numbers.size(), 500u);
  EXPECT_FALSE(std::is_sorted(numbers.begin(), numbers.end()));
  std::sort(numbers.begin(), numbers.end());
  for (uint32_t i = 0; i < 500; ++i) EXPECT_EQ(numbers[i], i);
}

TEST(SimNetwork, PartitionsAreOneWayOrBothAndHeal) {
  EventQueue queue;
  SimNetwork network(queue, 1);
  std::vector<std::unique_ptr<SimPort>> ports;
  for (int i = 0; i < 3; ++i) ports.push_back(network.add_endpoint());
  network.set_partition(1, true);
  Send(*ports[0], *ports[1], Numbered(1));
  Send(*ports[2], *ports[0], Numbered(2));
  Send(*ports[1], *ports[2], Numbered(3));
  network.wire(0, 1).blocked = false;
  Send(*ports[0], *ports[1], Numbered(4));
  Send(*ports[1], *ports[0], Numbered(5));
  queue.run_until(Instant(milliseconds(1)));
  EXPECT_TRUE(Drain(*ports[0]).empty());
  ASSERT_EQ(Drain(*ports[1]).size(), 1u);
  EXPECT_EQ(Drain(*ports[2]).size(), 1u);
  network.set_partition(1, false);
  Send(*ports[1], *ports[0], Numbered(6));
  queue.run_until(Instant(milliseconds(2)));
  EXPECT_EQ(Drain(*ports[0]).size(), 1u);
}

TEST(SimNetwork, ADeadEndpointIsReportedOnRequestAndMayReturn) {
  EventQueue queue;
  SimNetwork network(queue, 1);
  auto a = network.add_endpoint();
  auto b = network.add_endpoint();
  const Address address = b->address();
  const PeerHandle peer = a->add_peer(address).value();
  const auto bytes = Numbered(1);
  Send(*a, *b, bytes);
  b.reset();
  queue.run_until(Instant(milliseconds(1)));
  UnreachableHint hint;
  EXPECT_FALSE(a->poll_unreachable(hint));
  network.set_report_unreachable(true);
  TxDatagram datagram{peer, bytes, {}};
  ASSERT_EQ(a->send({&datagram, 1}), 1u);
  queue.run_until(Instant(milliseconds(2)));
  ASSERT_TRUE(a->poll_unreachable(hint));
  EXPECT_EQ(hint.peer.index, peer.index);
  EXPECT_EQ(hint.obstacle, Obstacle::kPortRefused);
  EXPECT_FALSE(a->poll_unreachable(hint));
  auto again = network.restart_endpoint(1);
  EXPECT_EQ(again->address(), address);
  ASSERT_EQ(a->send({&datagram, 1}), 1u);
  queue.run_until(Instant(milliseconds(3)));
  EXPECT_EQ(Drain(*again).size(), 1u);
}

TEST(SimNetwork, AFullReceiveBufferDrops) {
  EventQueue queue;
  SimNetwork network(queue, 1);
  auto a = network.add_endpoint();
  auto b = network.add_endpoint({.receive_buffer_bytes = 640});
  for (uint32_t i = 0; i < 20; ++i) Send(*a, *b, Numbered(i));
  queue.run_until(Instant(milliseconds(1)));
  EXPECT_EQ(Drain(*b).size(), 10u);
  EXPECT_EQ(network.stats().dropped, 10u);
}

TEST(SimNetwork, RefusesAddressesOfOtherPorts) {
  EventQueue queue;
  SimNetwork network(queue, 1);
  auto a = network.add_endpoint();
  const std::array<std::byte, 7> udp{std::byte{4}};
  EXPECT_EQ(a->add_peer(Address(udp, "127.0.0.1:1")).status().code(), StatusCode::kInvalidArgument);
}

uint64_t Trace(uint64_t seed) {
  EventQueue queue;
  SimWire wire;
  wire.loss = wire.duplicate = wire.reorder = wire.corrupt = 0.1;
  SimNetwork network(queue, seed, wire);
  auto a = network.add_endpoint();
  auto b = network.add_endpoint();
  for (uint32_t i = 0; i < 300; ++i) {
    Send(*a, *b, Numbered(i));
    Send(*b, *a, Numbered(i));
  }
  queue.run_until(Instant(milliseconds(10)));
  return network.trace_digest();
}

TEST(SimNetwork, OneSeedOneTrace) {
  EXPECT_EQ(Trace(3), Trace(3));
  EXPECT_NE(Trace(3), Trace(4));
}

}  // namespace
}  // namespace rocecoll
