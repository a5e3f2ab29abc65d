// SPDX-License-Identifier: Apache-2.0
// What happens to data for memory that has an intake, which takes the data as it arrives.
#include "transport/datagram/reliability/regions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "base/random.h"
#include "transport/gathering.h"

namespace rocecoll {
namespace {

constexpr size_t kPayloadBytes = 1452;
constexpr size_t kBytes = 100003;
constexpr uint32_t kToken = 7;

class RegionsIntake : public testing::Test {
 protected:
  // Returns false if the write has not landed.
  bool write(size_t at, size_t size) {
    DataField data;
    data.region = slice_.base;
    data.key = slice_.key;
    data.offset = at;
    data.payload = std::span(source_).subspan(at, std::min(size, kBytes - at));
    const auto token = regions_.write(data);
    EXPECT_TRUE(!token || *token == kToken);
    return token.has_value();
  }
  void expect_received() {
    std::ranges::copy(intake_.taken(), target_.begin());
    EXPECT_TRUE(target_ == source_);
  }

  std::vector<std::byte> source_ = [] {
    std::vector<std::byte> bytes(kBytes);
    Random random(1);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.next());
    return bytes;
  }();
  std::vector<std::byte> target_ = std::vector<std::byte>(kBytes);
  Gathering intake_;
  Regions regions_{1};
  RemoteSlice slice_ =
      regions_.expose({target_.data(), target_.size(), kUnregistered, &intake_}, kToken);
};

TEST_F(RegionsIntake, WhatComesInOrderIsTakenWithThePacket) {
  size_t at = 0;
  for (; !write(at, kPayloadBytes); at += kPayloadBytes) {
    const size_t come = at + kPayloadBytes;
    ASSERT_EQ(intake_.taken_bytes(), come - come % Intake::kPieceBytes);
  }
  EXPECT_EQ(intake_.taken_bytes(), kBytes);
  expect_received();
}

TEST_F(RegionsIntake, WhatIsMissingHoldsUpWhatIsBehindIt) {
  write(0, kPayloadBytes);
  write(2 * kPayloadBytes, kPayloadBytes);
  EXPECT_LE(intake_.taken_bytes(), kPayloadBytes);
  write(kPayloadBytes, kPayloadBytes);
  EXPECT_LE(intake_.taken_bytes(), 2 * kPayloadBytes);
  write(3 * kPayloadBytes, kPayloadBytes);
  EXPECT_GT(intake_.taken_bytes(), 4 * kPayloadBytes - Intake::kPieceBytes);
}

// This includes single bytes, whose gaps are shorter than a piece.
TEST_F(RegionsIntake, InAnyOrderAndSizeAndMoreThanOnce) {
  Random random(2);
  bool landed = false;
  while (!landed) {
    const size_t at = random.below(kBytes);
    landed = write(at, 1 + random.below(random.below(2) == 0 ? 4 : 4000));
  }
  expect_received();
}

// Data has been taken before when it came over a fast path.
TEST_F(RegionsIntake, WhatHasBeenTakenBeforeIsNotTakenAgain) {
  constexpr size_t kBefore = 40 * Intake::kPieceBytes;
  intake_.take(std::span(source_).first(kBefore));
  for (size_t at = 0; !write(at, kPayloadBytes); at += kPayloadBytes) {
    ASSERT_GE(intake_.taken_bytes(), kBefore);
  }
  EXPECT_EQ(intake_.taken_bytes(), kBytes);
  expect_received();
}

TEST_F(RegionsIntake, WhatIsShorterThanAPiece) {
  Gathering intake;
  std::vector<std::byte> target(5);
  slice_ = regions_.expose({target.data(), target.size(), kUnregistered, &intake}, kToken);
  DataField data;
  data.region = slice_.base;
  data.key = slice_.key;
  data.payload = std::span(source_).first(3);
  EXPECT_FALSE(regions_.write(data).has_value());
  EXPECT_EQ(intake.taken_bytes(), 0u);
  data.offset = 3;
  data.payload = std::span(source_).subspan(3, 2);
  EXPECT_TRUE(regions_.write(data).has_value());
  EXPECT_TRUE(std::ranges::equal(intake.taken(), std::span(source_).first(5)));
}

}  // namespace
}  // namespace rocecoll
