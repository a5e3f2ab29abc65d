// SPDX-License-Identifier: Apache-2.0
#include "transport/datagram/transmit_batch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <span>
#include <vector>

#include "transport/sim/sim_network.h"
#include "transport/sim/sim_port.h"

namespace rocecoll {
namespace {

// What a batch holds depends on its own path, not on the largest datagram of any path.
TEST(TransmitBatch, IsFilledWithTheDatagramsOfItsPath) {
  EventQueue queue;
  SimNetwork network(queue, 1);
  const auto port = network.add_endpoint({.max_datagram_bytes = 65'000, .max_burst = 1000});
  for (const auto& [datagram, fit] : {std::pair{65'000u, 2u}, {8192u, 15u}, {1452u, 89u}}) {
    TransportStats stats;
    TransmitBatch batch(*port, stats);
    for (size_t count = 0; batch.has_room(datagram); ++count) {
      batch.add({{}, batch.space().first(datagram), {}, false}, nullptr);
      ASSERT_LE(count, 1000u);
    }
    EXPECT_EQ(batch.size(), fit);
  }
}

TEST(TransmitBatch, TakesOneDatagramOfAnySize) {
  EventQueue queue;
  SimNetwork network(queue, 1);
  const auto port = network.add_endpoint({.max_datagram_bytes = 65'000, .max_burst = 1});
  TransportStats stats;
  TransmitBatch batch(*port, stats);
  ASSERT_TRUE(batch.has_room(65'000));
  batch.add({{}, batch.space().first(65'000), {}, false}, nullptr);
  EXPECT_FALSE(batch.has_room(1));
}

// A queue may move once the batch has been offered, even if the port was full.
TEST(TransmitBatch, KeepsWhatAFullPortDidNotTakeOfAQueue) {
  EventQueue queue;
  SimNetwork network(queue, 1);
  const auto port = network.add_endpoint({.max_datagram_bytes = 65'000, .max_burst = 10});
  const auto peer = network.add_endpoint({.max_datagram_bytes = 65'000, .max_burst = 10});
  const PeerHandle to = port->add_peer(peer->address()).value();
  TransportStats stats;
  TransmitBatch batch(*port, stats);
  std::vector<std::byte> queued(60'000, std::byte{7});
  for (size_t i = 0; i < 2; ++i) {
    const auto header = batch.space().first(100);
    std::ranges::fill(header, std::byte{1});
    batch.add({.to = to, .header = header, .payload = queued, .payload_is_queued = true}, nullptr);
  }
  port->set_send_room(1);
  ASSERT_FALSE(batch.send());
  std::ranges::fill(queued, std::byte{0});
  ASSERT_TRUE(batch.send());
  std::vector<std::byte> expected(100, std::byte{1});
  expected.resize(60'100, std::byte{7});
  queue.run_until(queue.now() + std::chrono::seconds(1));
  RxDatagram got[3];
  ASSERT_EQ(peer->receive(got), 2u);
  for (const RxDatagram& datagram : std::span(got).first(2)) {
    EXPECT_TRUE(std::ranges::equal(datagram.bytes, expected));
  }
  peer->release(std::span(got).first(2));
}

}  // namespace
}  // namespace rocecoll
