// SPDX-License-Identifier: Apache-2.0
// What is exposed for somebody to take as it comes: out of the ring, or as it is fetched.
#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <vector>

#include "shm/played_peer.h"
#include "transport/gathering.h"

namespace rocecoll {
namespace {

class ShmIntake : public PathTest {
 protected:
  void expect_landed(const std::vector<Seen>& seen) {
    ASSERT_EQ(seen.size(), 1u);
    EXPECT_EQ(seen[0].kind, FastEvent::Kind::kLanded) << seen[0].text;
    EXPECT_TRUE(guards_are_whole());
  }
  // Taken, and behind that in the slice.
  void expect_received(const Bytes& source) {
    Bytes received = exposed();
    std::ranges::copy(intake_.taken(), received.begin());
    EXPECT_TRUE(received == source);
  }

  Gathering intake_;
};

TEST_F(ShmIntake, PartsAreTakenOutOfTheRing) {
  start();
  const Bytes source = RandomBytes(100001, 1);
  expose(1, source.size(), &intake_);
  expect_landed(send_parts(source, 32768));
  EXPECT_TRUE(intake_.taken() == source);
  EXPECT_EQ(exposed(), Bytes(source.size(), std::byte{7})) << "not copied";
}

TEST_F(ShmIntake, WhatIsFetchedIsTaken) {
  start();
  const Bytes source = RandomBytes(kSeveralFetches + 3, 1);
  expose(1, source.size(), &intake_);
  peer_.say(Entry(Kind::kPull, 1, AddressOf(source.data()), source.size()));
  expect_landed(ring_and_look());
  EXPECT_TRUE(intake_.taken() == source);
}

// Elements would be cut otherwise.
TEST_F(ShmIntake, APartThatEndsWithinAPieceIsCopiedAndAllBehindIt) {
  start();
  const Bytes source = RandomBytes(5000, 1);
  expose(1, source.size(), &intake_);
  expect_landed(send_parts(source, 1001));
  EXPECT_EQ(intake_.taken_bytes(), 0u);
  expect_received(source);
}

TEST_F(ShmIntake, WhatIsRevokedWhileItIsFetchedIsNotTaken) {
  start();
  const Bytes source = RandomBytes(kSeveralFetches, 1);
  fetch_a_part_of(source, &intake_);
  const size_t taken_bytes = intake_.taken_bytes();
  ASSERT_GT(taken_bytes, 0u);
  ASSERT_LT(taken_bytes, source.size());
  peer_.victims_header().revoked.store(1);
  const std::vector<Seen> seen = look();
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].kind, FastEvent::Kind::kFailed);
  EXPECT_EQ(intake_.taken_bytes(), taken_bytes);
}

// In the generation after one that ended under way.
TEST_F(ShmIntake, WhatHasBeenTakenIsNotTakenAgain) {
  for (const bool fetched : {false, true}) {
    begin_again();
    Gathering& intake = intake_ = {};
    const Bytes source = RandomBytes(kSeveralFetches, 1);
    fetch_a_part_of(source, &intake);
    ASSERT_GT(intake.taken_bytes(), 0u);
    begin_again();
    if (fetched) {
      peer_.say(Entry(Kind::kPull, 1, AddressOf(source.data()), source.size()));
      expect_landed(ring_and_look());
    } else {
      expect_landed(send_parts(source, 32000));
    }
    expect_received(source);
    path_->destroy();
    path_->forget_lent();
  }
}

}  // namespace
}  // namespace rocecoll
