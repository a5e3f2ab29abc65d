// SPDX-License-Identifier: Apache-2.0
// How much is kept of tags that have been used, and that no count gets lost.
#include "engine/tags/tag_counts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <vector>

#include "base/random.h"
#include "engine/tags/message_numbers.h"

namespace rocecoll {
namespace {

constexpr uint32_t kLargestTag = (1u << 31) - 1;

TEST(TagCounts, CountsEveryTagForItself) {
  Random random(5);
  for (const uint32_t range : {1u, 2u, 3u, 8u, 50u, 1000u}) {
    TagCounts counts;
    std::map<uint32_t, uint32_t> expected;
    for (int i = 0; i < 5000; ++i) {
      const auto tag = static_cast<uint32_t>(random.next() % range);
      ASSERT_EQ(counts.count(tag), expected[tag]) << tag;
      ASSERT_EQ(counts.take(tag), expected[tag]++) << tag;
    }
    for (uint32_t tag = 0; tag <= range; ++tag) ASSERT_EQ(counts.count(tag), expected[tag]) << tag;
    ASSERT_LE(counts.entries(), range);
  }
}

TEST(TagCounts, KnowsTheEndsOfTheRange) {
  TagCounts counts;
  for (const uint32_t tag : {0u, kLargestTag, kLargestTag - 1, 0u}) counts.take(tag);
  EXPECT_EQ(counts.count(0), 2u);
  EXPECT_EQ(counts.count(1), 0u);
  EXPECT_EQ(counts.count(kLargestTag), 1u);
  EXPECT_EQ(counts.entries(), 2u);
}

TEST(TagCounts, ARangeInAnyOrderIsOneEntry) {
  std::vector<uint32_t> tags(10000);
  std::iota(tags.begin(), tags.end(), 7u);
  Random random(6);
  TagCounts counts;
  for (uint32_t round = 0; round < 3; ++round) {
    for (size_t i = tags.size(); i > 1; --i) std::swap(tags[i - 1], tags[random.next() % i]);
    for (const uint32_t tag : tags) ASSERT_EQ(counts.take(tag), round);
    ASSERT_EQ(counts.entries(), 1u);
  }
}

TEST(TagCounts, ForgetsRuns) {
  Random random(7);
  for (const uint32_t range : {1u, 3u, 20u, 300u}) {
    TagCounts counts;
    std::map<uint32_t, uint32_t> expected;
    for (int i = 0; i < 3000; ++i) {
      const auto tag = static_cast<uint32_t>(random.below(range));
      ASSERT_EQ(counts.take(tag), expected[tag]++) << tag;
      if (!random.chance(0.2)) continue;
      // Some run from here on, or a part of it.
      auto run = counts.next_run(random.below(range));
      if (!run) continue;
      run->first += static_cast<uint32_t>(random.below(run->last - run->first + 1));
      ASSERT_TRUE(counts.holds(*run));
      EXPECT_FALSE(counts.holds({run->first, run->last, run->count + 1}));
      EXPECT_FALSE(counts.holds({run->first, range, run->count}));
      counts.forget(*run);
      for (uint32_t gone = run->first; gone <= run->last; ++gone) expected[gone] = 0;
      EXPECT_FALSE(counts.holds(*run));
    }
    for (uint32_t tag = 0; tag <= range; ++tag) ASSERT_EQ(counts.count(tag), expected[tag]) << tag;
  }
}

// A program that gives each message a tag of its own, between a rank and two others, both ways.
TEST(MessageNumbers, TenMillionTagsTakeNoMemory) {
  MessageNumbers numbers;
  for (uint32_t tag = 0; tag < 10'000'000; ++tag) {
    const Rank peer = tag & 1;
    numbers.take_send(peer, tag >> 1);
    numbers.take_receive(peer, tag >> 1);
    if (tag % 4096 == 0) {
      ASSERT_LE(numbers.entries(), 4u);
    }
  }
  // None of them is forgotten.
  EXPECT_EQ(numbers.take_send(0, 77) & 0xffffffff, 1u);
  EXPECT_EQ(numbers.take_receive(1, 4'999'999) & 0xffffffff, 1u);
  EXPECT_EQ(numbers.next_receive(1, 5'000'000) & 0xffffffff, 0u);
}

TEST(MessageNumbers, KeepsAnnouncementsUntilTheyAreReceived) {
  MessageNumbers numbers;
  const auto tag = [](uint64_t user_tag, uint64_t number) {
    return Tag{uint64_t{1} << 63 | user_tag << 32 | number, 0, 0};
  };
  numbers.note({1, tag(5, 1), 20});
  EXPECT_FALSE(numbers.next_announced(1, 5).has_value());
  numbers.note({1, tag(5, 0), 10});
  EXPECT_EQ(numbers.next_announced(1, 5), 10u);
  EXPECT_FALSE(numbers.next_announced(0, 5).has_value());
  numbers.take_receive(1, 5);
  EXPECT_EQ(numbers.next_announced(1, 5), 20u);
  numbers.note({1, tag(5, 0), 30});  // late: it has been received
  numbers.take_receive(1, 5);
  EXPECT_FALSE(numbers.next_announced(1, 5).has_value());
  EXPECT_EQ(numbers.entries(), 1u);
}

TEST(MessageNumbers, AnnouncementsAreKeptWhereNumbersWrapAround) {
  MessageNumbers numbers(UINT32_MAX);
  const auto tag = [](uint64_t number) { return Tag{uint64_t{1} << 63 | number, 0, 0}; };
  numbers.note({1, tag(0), 20});
  EXPECT_FALSE(numbers.next_announced(1, 0).has_value());
  EXPECT_EQ(numbers.take_receive(1, 0), tag(UINT32_MAX).operation);
  EXPECT_EQ(numbers.next_announced(1, 0), 20u);
  numbers.note({1, tag(UINT32_MAX), 30});  // late
  EXPECT_EQ(numbers.take_receive(1, 0), tag(0).operation);
  EXPECT_EQ(numbers.entries(), 1u);
}

}  // namespace
}  // namespace rocecoll
