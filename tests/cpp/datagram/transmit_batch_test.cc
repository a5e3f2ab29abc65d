// SPDX-License-Identifier: Apache-2.0
#include "transport/datagram/transmit_batch.h"

#include <gtest/gtest.h>

#include "transport/sim/sim_network.h"
#include "transport/sim/sim_port.h"

namespace rocecoll {
namespace {

// What a batch holds depends on the path that it is for, not on the largest datagram of any.
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

}  // namespace
}  // namespace rocecoll
