// SPDX-License-Identifier: Apache-2.0
#include "transport/datagram/udp/packet_memory.h"

#include <gtest/gtest.h>

namespace rocecoll {
namespace {

constexpr size_t kMemory = 400'000;
constexpr size_t kPayload = 20'000;
// Each of these is three quarters of what may be used.
constexpr size_t kUnknown = 100'000;
constexpr size_t kOfCharge1 = 240'000;
constexpr size_t kOfCharge2 = 120'000;

// Makes one sample, after the fetches that precede it.
void Weigh(PacketMemory& memory, size_t charged, size_t payload = kPayload, bool emptied = true) {
  while (!memory.sample_due()) memory.on_fetch(PacketMemory::kLeastPayload, 0, true);
  memory.on_fetch(payload, charged, emptied);
}

void WeighAll(PacketMemory& memory, size_t charged, uint32_t samples = PacketMemory::kSamples) {
  for (uint32_t i = 0; i < samples; ++i) Weigh(memory, charged);
}

TEST(PacketMemory, IsTakenForTheWorstUntilManySamplesSayOtherwise) {
  PacketMemory memory(kMemory);
  EXPECT_EQ(memory.payload_bytes(), kUnknown);
  WeighAll(memory, kPayload, PacketMemory::kSamples - 1);
  EXPECT_EQ(memory.payload_bytes(), kUnknown);
  Weigh(memory, kPayload);
  EXPECT_EQ(memory.payload_bytes(), kOfCharge1);
}

TEST(PacketMemory, BelievesTheHighestAtOnceAndForgetsItAfterMany) {
  PacketMemory memory(kMemory);
  WeighAll(memory, kPayload);
  Weigh(memory, 2 * kPayload);
  EXPECT_EQ(memory.payload_bytes(), kOfCharge2);
  WeighAll(memory, kPayload, PacketMemory::kSamples - 1);
  EXPECT_EQ(memory.payload_bytes(), kOfCharge2);
  WeighAll(memory, kPayload);
  EXPECT_EQ(memory.payload_bytes(), kOfCharge1);
}

TEST(PacketMemory, HoldsAtLeastWhatItDoesAtTheWorst) {
  PacketMemory memory(kMemory);
  WeighAll(memory, 100 * kPayload);
  EXPECT_EQ(memory.payload_bytes(), kUnknown);
}

TEST(PacketMemory, DoesNotCountWhatSaysNothing) {
  PacketMemory memory(kMemory);
  WeighAll(memory, kPayload);
  Weigh(memory, 2 * kPayload, PacketMemory::kLeastPayload - 1);  // mostly acknowledgements
  Weigh(memory, 2 * kPayload, kPayload, false);                  // not all of it was fetched
  Weigh(memory, 2 * kPayload);  // the previous fetch may still be charged
  EXPECT_EQ(memory.payload_bytes(), kOfCharge1);
  Weigh(memory, 2 * kPayload);
  EXPECT_EQ(memory.payload_bytes(), kOfCharge2);
}

// A process that polls an empty socket after the last large transfer would notice a system call for
// each poll.
TEST(PacketMemory, TriesSomeTimesOnly) {
  PacketMemory memory(kMemory);
  Weigh(memory, 0, 0);
  for (uint32_t i = 1; i < PacketMemory::kTries; ++i) {
    EXPECT_TRUE(memory.sample_due());
    memory.on_fetch(0, 0, true);
  }
  EXPECT_FALSE(memory.sample_due());
}

TEST(PacketMemory, AsksForNothingWhereLittleComes) {
  PacketMemory memory(kMemory);
  for (uint32_t i = 0; i < 1000; ++i) {
    EXPECT_FALSE(memory.sample_due());
    memory.on_fetch(PacketMemory::kLeastPayload - 1, 0, true);
  }
}

}  // namespace
}  // namespace rocecoll
