// SPDX-License-Identifier: Apache-2.0
#include "transport/datagram/fault_port.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <memory>
#include <vector>

#include "base/bytes.h"
#include "transport/sim/sim_network.h"
#include "transport/sim/sim_port.h"

namespace rocecoll {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// A faulty port and a plain one on a perfect network.
struct FaultyPair {
  explicit FaultyPair(const FaultOptions& options) {
    receiver = network.add_endpoint({.receive_buffer_bytes = 1 << 26});
    auto inner = network.add_endpoint();
    plain = inner.get();
    faulty = std::make_unique<FaultPort>(std::move(inner), options, [this] { return queue.now(); });
    to = faulty->add_peer(receiver->address()).value();
  }
  void send(uint32_t number) {
    std::array<std::byte, 8> header{};
    StoreLe(header.data(), number);
    const TxDatagram datagram{to, header, payload};
    ASSERT_EQ(faulty->send({&datagram, 1}), 1u);
  }
  // Lets time pass in the way that a transport would.
  void run(Duration duration) {
    const Instant end = queue.now() + duration;
    std::array<RxDatagram, 4> none;
    while (faulty->next_deadline() <= end) {
      queue.run_until(std::max(queue.now(), faulty->next_deadline()));
      EXPECT_EQ(faulty->receive(none), 0u);
    }
    queue.run_until(end);
  }
  std::vector<std::vector<std::byte>> drain() {
    std::vector<std::vector<std::byte>> all;
    std::array<RxDatagram, 16> batch;
    while (size_t count = receiver->receive(batch)) {
      for (size_t i = 0; i < count; ++i) {
        all.emplace_back(batch[i].bytes.begin(), batch[i].bytes.end());
      }
      receiver->release({batch.data(), count});
    }
    return all;
  }

  EventQueue queue;
  SimNetwork network{queue, 1};
  std::unique_ptr<SimPort> receiver;
  SimPort* plain = nullptr;
  std::unique_ptr<FaultPort> faulty;
  PeerHandle to;
  const std::vector<std::byte> payload = std::vector<std::byte>(56, std::byte{0x5a});
};

std::vector<uint32_t> Numbers(const std::vector<std::vector<std::byte>>& datagrams) {
  std::vector<uint32_t> numbers;
  for (const auto& datagram : datagrams) numbers.push_back(LoadLe<uint32_t>(datagram.data()));
  return numbers;
}

TEST(FaultPort, WithoutFaultsNothingChanges) {
  FaultyPair pair({});
  for (uint32_t i = 0; i < 100; ++i) pair.send(i);
  pair.run(milliseconds(1));
  const auto numbers = Numbers(pair.drain());
  ASSERT_EQ(numbers.size(), 100u);
  EXPECT_TRUE(std::is_sorted(numbers.begin(), numbers.end()));
  EXPECT_EQ(pair.faulty->next_deadline(), kNever);
}

TEST(FaultPort, LosesAndDuplicatesAboutAsOftenAsAsked) {
  FaultyPair pair({.loss = 0.2, .duplicate = 0.1, .seed = 3});
  for (uint32_t i = 0; i < 20000; ++i) pair.send(i);
  pair.run(milliseconds(1));
  EXPECT_NEAR(static_cast<double>(pair.faulty->counts().lost), 4000, 300);
  EXPECT_NEAR(static_cast<double>(pair.faulty->counts().duplicated), 1600, 200);
  EXPECT_EQ(pair.drain().size(),
            20000 - pair.faulty->counts().lost + pair.faulty->counts().duplicated);
}

TEST(FaultPort, FlipsExactlyOneBitOfACopy) {
  FaultyPair pair({.corrupt = 0.25, .seed = 4});
  const uint32_t count = 2000;
  for (uint32_t i = 0; i < count; ++i) pair.send(0);
  pair.run(milliseconds(10));
  const auto got = pair.drain();
  ASSERT_EQ(got.size(), count);
  std::vector<std::byte> sent(8);
  sent.insert(sent.end(), pair.payload.begin(), pair.payload.end());
  uint64_t corrupted = 0;
  for (const auto& datagram : got) {
    int flipped = 0;
    for (size_t i = 0; i < sent.size(); ++i) {
      flipped += std::popcount(static_cast<uint8_t>(datagram[i] ^ sent[i]));
    }
    ASSERT_LE(flipped, 1);
    corrupted += static_cast<uint64_t>(flipped);
  }
  EXPECT_EQ(corrupted, pair.faulty->counts().corrupted);
  EXPECT_NEAR(static_cast<double>(corrupted), 500, 100);
  EXPECT_TRUE(std::all_of(pair.payload.begin(), pair.payload.end(),
                          [](std::byte byte) { return byte == std::byte{0x5a}; }));
}

TEST(FaultPort, ReorderedDatagramsAreOvertakenByAFewAndNeverStuck) {
  FaultyPair pair({.reorder = 0.2, .seed = 5});
  for (uint32_t i = 0; i < 1000; ++i) pair.send(i);
  pair.run(milliseconds(10));
  auto numbers = Numbers(pair.drain());
  ASSERT_EQ(numbers.size(), 1000u);
  EXPECT_FALSE(std::is_sorted(numbers.begin(), numbers.end()));
  for (uint32_t i = 0; i < 990; ++i) {
    const auto at =
        static_cast<uint32_t>(std::find(numbers.begin(), numbers.end(), i) - numbers.begin());
    EXPECT_LE(at, i + 16);
  }
  FaultyPair alone({.reorder = 1, .seed = 5});
  alone.send(7);
  EXPECT_NE(alone.faulty->next_deadline(), kNever);
  alone.run(milliseconds(5));
  EXPECT_EQ(alone.drain().size(), 1u);
}

TEST(FaultPort, DelaysEverythingByTheSameTime) {
  FaultyPair pair({.delay = milliseconds(3)});
  for (uint32_t i = 0; i < 10; ++i) pair.send(i);
  EXPECT_EQ(pair.faulty->next_deadline(), Instant(milliseconds(3)));
  pair.run(milliseconds(3));
  EXPECT_TRUE(pair.drain().empty());  // the wire itself takes 10 us more
  pair.run(microseconds(10));
  const auto numbers = Numbers(pair.drain());
  ASSERT_EQ(numbers.size(), 10u);
  EXPECT_TRUE(std::is_sorted(numbers.begin(), numbers.end()));
}

TEST(FaultPort, WhatTheInnerPortRefusesIsSentLater) {
  FaultyPair pair({.duplicate = 0.5, .seed = 6});
  pair.plain->set_send_room(0);
  for (uint32_t i = 0; i < 50; ++i) pair.send(i);
  pair.plain->set_send_room(SIZE_MAX);
  pair.run(milliseconds(1));
  EXPECT_EQ(pair.drain().size(), 50 + pair.faulty->counts().duplicated);
}

TEST(FaultPort, HoldsABoundedNumber) {
  FaultyPair pair({.delay = milliseconds(3)});
  for (uint32_t i = 0; i < 20000; ++i) pair.send(i);
  pair.run(milliseconds(4));
  const auto got = pair.drain().size();
  EXPECT_LT(got, 20000u);
  EXPECT_EQ(got + pair.faulty->counts().overflowed, 20000u);
}

TEST(FaultPort, SameSeedSameFaults) {
  const auto run = [](uint64_t seed) {
    FaultyPair pair({.loss = 0.1, .duplicate = 0.1, .reorder = 0.1, .corrupt = 0.1, .seed = seed});
    for (uint32_t i = 0; i < 500; ++i) pair.send(i);
    pair.run(milliseconds(10));
    return pair.drain();
  };
  EXPECT_EQ(run(8), run(8));
  EXPECT_NE(run(8), run(9));
}

}  // namespace
}  // namespace rocecoll
