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

// A writer that is as fast as its reader: the next part is there once one is taken.
class Feeding final : public Intake {
 public:
  Feeding(PlayedPeer& peer, size_t size) : peer_(peer), size_(size) {}
  void say_next() {
    RingEntry entry = Entry(Kind::kPart, 1, taken_);
    const size_t part_bytes = std::min(size_ - taken_, size_t{32} << 10);
    entry.last = taken_ + part_bytes == size_ ? 1 : 0;
    peer_.say(entry, Bytes(part_bytes));
  }
  void take(std::span<const std::byte> bytes) override {
    taken_ += bytes.size();
    if (taken_ < size_) say_next();
  }
  size_t taken_bytes() const override { return taken_; }

 private:
  PlayedPeer& peer_;
  const size_t size_;
  size_t taken_ = 0;
};

TEST_F(ShmIntake, PartsThatNeverEndLeaveOthersTheirTurn) {
  start();
  Feeding feeding(peer_, kSeveralFetches);
  expose(1, kSeveralFetches, &feeding);
  feeding.say_next();
  peer_.ring(end());
  for (FastEvent event; device_->poll(event);) ASSERT_EQ(event.kind, FastEvent::Kind::kProgress);
  EXPECT_GT(feeding.taken_bytes(), 0u);
  EXPECT_LT(feeding.taken_bytes(), kSeveralFetches);
  expect_landed(look());
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
