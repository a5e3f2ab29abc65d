// SPDX-License-Identifier: Apache-2.0
#include "transport/fast_paths/shm/shm_ring.h"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "base/random.h"
#include "transport/fast_paths/shm/shared_segment.h"

namespace rocecoll {
namespace {

// A ring, and its two ends. `header()` is what a hostile end would write to.
class RingTest : public testing::Test {
 protected:
  static SharedSegment Made() {
    auto segment = SharedSegment::Create(kRingSegmentBytes);
    EXPECT_TRUE(segment.ok()) << segment.status().message();
    return segment.take();
  }
  // A message of `size` bytes that all are `value`. False: no room.
  bool write(size_t size, uint8_t value) {
    std::byte* room = writer_.reserve(size);
    if (room == nullptr) return false;
    std::memset(room, value, size);
    RingEntry entry;
    entry.kind = RingEntry::Kind::kFrame;
    entry.payload_bytes = static_cast<uint32_t>(size);
    entry.slice = value;
    writer_.publish(entry);
    return true;
  }
  // The next message is one of write()'s.
  bool reads(size_t size, uint8_t value) {
    const auto message = reader_.next();
    if (!message) return false;
    const std::vector<std::byte> expected(size, static_cast<std::byte>(value));
    const bool same =
        message->entry.slice == value && std::ranges::equal(message->payload, expected);
    reader_.advance();
    return same;
  }
  RingHeader& header() { return reader_.header(); }

  SharedSegment segment_ = Made();
  RingReader reader_{segment_.data()};
  RingWriter writer_{segment_.data()};
};

TEST_F(RingTest, MessagesOfEverySizeComeInOrderAgainAndAgain) {
  Random random(3);
  for (int i = 0; i < 3000; ++i) {
    const size_t size =
        random.chance(0.1) ? kMaxRingPayload - random.below(100) : random.below(3000);
    const auto value = static_cast<uint8_t>(i);
    ASSERT_TRUE(write(size, value)) << i;
    ASSERT_TRUE(reads(size, value)) << i;
    EXPECT_FALSE(reader_.next());
    reader_.free_read();
  }
  EXPECT_TRUE(reader_.sound() && writer_.sound());
}

TEST_F(RingTest, AFullRingTakesNothingUntilThereIsRoom) {
  size_t count = 0;
  while (write(1000, static_cast<uint8_t>(count))) ++count;
  EXPECT_EQ(count, kRingBytes / 1088);
  ASSERT_TRUE(reads(1000, 0));
  EXPECT_FALSE(write(1000, 1)) << "read, but not free yet";
  reader_.free_read();
  for (size_t i = 1; i < count / 2; ++i) ASSERT_TRUE(reads(1000, static_cast<uint8_t>(i)));
  reader_.free_read();
  EXPECT_TRUE(write(kMaxRingPayload / 4, 1));
}

TEST_F(RingTest, AnEmptyRingIsWrittenFromItsFrontAgain) {
  const auto place = [this] {
    const auto message = reader_.next();
    return message->payload.data() - sizeof(RingEntry) - segment_.data() - RingHeader::kBytes;
  };
  constexpr size_t kHalf = kWarmRingBytes / 2;
  for (uint8_t i = 0; i < 3; ++i) ASSERT_TRUE(write(kHalf, i));
  for (uint8_t i = 0; i < 2; ++i) ASSERT_TRUE(reads(kHalf, i));
  reader_.free_read();
  ASSERT_TRUE(write(100, 3));
  ASSERT_TRUE(reads(kHalf, 2));
  EXPECT_GT(place(), kWarmRingBytes) << "the ring was not empty";
  ASSERT_TRUE(reads(100, 3));
  reader_.free_read();
  ASSERT_TRUE(write(100, 4));
  EXPECT_EQ(place(), 0);
  EXPECT_TRUE(reads(100, 4));
  EXPECT_TRUE(reader_.sound() && writer_.sound());
}

TEST_F(RingTest, WhatIsHalfWrittenIsNotThere) {
  ASSERT_NE(writer_.reserve(100), nullptr);
  EXPECT_FALSE(reader_.next());
  EXPECT_TRUE(reader_.sound());
}

TEST_F(RingTest, OneThreadWritesWhatAnotherReads) {
  constexpr int kMessages = 200000;
  std::thread other([this] {
    for (int i = 0; i < kMessages;) {
      i += write(1 + i % 700, static_cast<uint8_t>(i)) ? 1 : 0;
    }
  });
  for (int i = 0; i < kMessages; ++i) {
    while (!reader_.next()) std::this_thread::yield();
    ASSERT_TRUE(reads(1 + i % 700, static_cast<uint8_t>(i))) << i;
    if (i % 5 == 0) reader_.free_read();
  }
  other.join();
}

TEST_F(RingTest, AWriterThatLiesIsFoundOutBeforeAnythingIsRead) {
  const auto lie = [](uint64_t tail, const RingEntry& entry) {
    SharedSegment segment = Made();
    RingReader reader(segment.data());
    std::memcpy(segment.data() + RingHeader::kBytes, &entry, sizeof(entry));
    reader.header().tail.store(tail);
    const bool none = !reader.next();
    return none && !reader.sound();
  };
  RingEntry small;
  small.kind = RingEntry::Kind::kFrame;
  small.payload_bytes = 10;
  EXPECT_TRUE(lie(kRingBytes + kRingAlignment, small)) << "more than there is room for";
  EXPECT_TRUE(lie(uint64_t{0} - 64, small)) << "behind what has been read";
  EXPECT_TRUE(lie(100, small)) << "no message ends there";
  RingEntry large = small;
  large.payload_bytes = 64;
  EXPECT_TRUE(lie(64, large)) << "longer than what has been written";
  large.payload_bytes = UINT32_MAX;
  EXPECT_TRUE(lie(kRingBytes, large));
  large.payload_bytes = kRingBytes;
  EXPECT_TRUE(lie(kRingBytes, large)) << "beyond the end of the ring";
}

TEST_F(RingTest, AReaderThatLiesIsFoundOut) {
  for (const uint64_t head : {uint64_t{kRingBytes} * 2, uint64_t{64 + 1}, ~uint64_t{0}}) {
    SharedSegment segment = Made();
    RingReader reader(segment.data());
    RingWriter writer(segment.data());
    RingEntry entry;
    entry.kind = RingEntry::Kind::kNothing;
    while (writer.reserve(0) != nullptr) writer.publish(entry);
    EXPECT_TRUE(writer.sound());
    reader.header().head.store(head);
    EXPECT_EQ(writer.reserve(0), nullptr);
    EXPECT_FALSE(writer.sound()) << head;
  }
}

}  // namespace
}  // namespace rocecoll
