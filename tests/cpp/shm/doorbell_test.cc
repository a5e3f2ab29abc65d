// SPDX-License-Identifier: Apache-2.0
#include "transport/fast_paths/shm/doorbell.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

namespace rocecoll {
namespace {

Doorbell Made() {
  auto bell = Doorbell::Create();
  EXPECT_TRUE(bell.ok()) << bell.status().message();
  return bell.take();
}

PeerDoorbell SeenByAPeer(const Doorbell& bell) {
  auto segment = SharedSegment::Map(Descriptor(::dup(bell.descriptor())), DoorbellPage::kBytes);
  EXPECT_TRUE(segment.ok()) << segment.status().message();
  return PeerDoorbell(segment.take());
}

std::vector<uint32_t> Rung(Doorbell& bell) {
  std::vector<uint32_t> slots;
  bell.take_rung([&slots](uint32_t slot) { slots.push_back(slot); });
  std::ranges::sort(slots);
  return slots;
}

TEST(Doorbell, WhoHasRungIsFoundOnce) {
  Doorbell bell = Made();
  PeerDoorbell peer = SeenByAPeer(bell);
  for (const uint32_t slot : {0u, 63u, 64u, 700u, DoorbellPage::kSlots - 1, 700u}) peer.ring(slot);
  EXPECT_EQ(Rung(bell), (std::vector<uint32_t>{0, 63, 64, 700, DoorbellPage::kSlots - 1}));
  EXPECT_TRUE(Rung(bell).empty());
}

TEST(Doorbell, TheFirstThatRingsWakesASleeper) {
  Doorbell bell = Made();
  PeerDoorbell peer = SeenByAPeer(bell);
  EXPECT_FALSE(peer.ring(1));
  EXPECT_FALSE(bell.fall_asleep()) << "somebody has rung before";
  Rung(bell);
  bell.awake();
  EXPECT_TRUE(bell.fall_asleep());
  EXPECT_TRUE(peer.ring(1));
  EXPECT_FALSE(peer.ring(2));
}

// A sleeper here waits for a flag instead of a descriptor. Where other work has the processors each
// round takes time slices, so that the rounds end by the clock, too.
TEST(Doorbell, NoRingIsLostBetweenLookingAndFallingAsleep) {
  constexpr int kRounds = 100000;
  Doorbell bell = Made();
  PeerDoorbell peer = SeenByAPeer(bell);
  std::atomic<bool> woken{false};
  std::atomic<int> taken{0};
  std::atomic<int> rounds{kRounds};
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  std::thread other([&] {
    for (int i = 0; i < rounds.load(); ++i) {
      if (std::chrono::steady_clock::now() > end) rounds.store(i + 1);
      if (peer.ring(static_cast<uint32_t>(i) % 200)) woken.store(true);
      while (taken.load() <= i) std::this_thread::yield();
    }
  });
  while (taken.load() < rounds.load()) {
    if (const size_t rung = Rung(bell).size(); rung > 0) {
      taken.fetch_add(static_cast<int>(rung));
      continue;
    }
    if (bell.fall_asleep()) {
      while (!woken.exchange(false)) std::this_thread::yield();
    }
    bell.awake();
    woken.store(false);
  }
  other.join();
}

TEST(SharedSegment, OnlyWhatCannotShrinkIsMapped) {
  const Descriptor open(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(open, 4096), 0);
  EXPECT_FALSE(SharedSegment::Map(Descriptor(::dup(open)), 4096).ok()) << "not sealed";
  auto made = SharedSegment::Create(4096);
  ASSERT_TRUE(made.ok());
  EXPECT_NE(::ftruncate(made.value().descriptor(), 0), 0);
  EXPECT_FALSE(SharedSegment::Map(Descriptor(::dup(made.value().descriptor())), 8192).ok());
  EXPECT_TRUE(SharedSegment::Map(Descriptor(::dup(made.value().descriptor())), 4096).ok());
}

}  // namespace
}  // namespace rocecoll
