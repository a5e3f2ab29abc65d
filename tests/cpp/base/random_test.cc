// SPDX-License-Identifier: Apache-2.0
#include "base/random.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <set>

namespace rocecoll {
namespace {

// The sequence is part of the contract: seeds in bug reports must replay on every machine. These
// are the first outputs of the published SplitMix64 for the seed 1234567.
TEST(RandomTest, SequenceIsFixed) {
  Random random(1234567);
  for (uint64_t expected : {6457827717110365317ull, 3203168211198807973ull, 9817491932198370423ull,
                            4593380528125082431ull, 16408922859458223821ull}) {
    EXPECT_EQ(random.next(), expected);
  }
}

TEST(RandomTest, SameSeedSameSequenceOtherSeedOther) {
  Random a(42), b(42), c(43);
  int equal = 0;
  for (int i = 0; i < 1000; ++i) {
    const uint64_t value = a.next();
    EXPECT_EQ(value, b.next());
    equal += value == c.next() ? 1 : 0;
  }
  EXPECT_EQ(equal, 0);
}

TEST(RandomTest, BelowIsUniformWithinItsBound) {
  Random random(1);
  constexpr int kBuckets = 10, kDraws = 100000;
  std::array<int, kBuckets> counts{};
  for (int i = 0; i < kDraws; ++i) {
    const uint64_t value = random.below(kBuckets);
    ASSERT_LT(value, static_cast<uint64_t>(kBuckets));
    ++counts[value];
  }
  // The margin is five standard deviations of a binomial distribution.
  const double margin = 5 * std::sqrt(kDraws * 0.1 * 0.9);
  for (int count : counts) EXPECT_NEAR(count, kDraws / kBuckets, margin);
}

TEST(RandomTest, BoundsAtTheEdges) {
  Random random(2);
  bool high = false;
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(random.below(1), 0u);
    high = high || random.below(UINT64_MAX) > UINT64_MAX / 2;
  }
  EXPECT_TRUE(high);
}

TEST(RandomTest, UniformStaysInItsIntervalAndAveragesAHalf) {
  Random random(3);
  double sum = 0;
  constexpr int kDraws = 100000;
  for (int i = 0; i < kDraws; ++i) {
    const double value = random.uniform();
    ASSERT_GE(value, 0.0);
    ASSERT_LT(value, 1.0);
    sum += value;
  }
  EXPECT_NEAR(sum / kDraws, 0.5, 5 * std::sqrt(1.0 / 12 / kDraws));
}

TEST(RandomTest, ChanceFollowsItsProbability) {
  Random random(4);
  constexpr int kDraws = 100000;
  int hits = 0;
  for (int i = 0; i < kDraws; ++i) {
    EXPECT_FALSE(random.chance(0));
    EXPECT_TRUE(random.chance(1));
    hits += random.chance(0.02) ? 1 : 0;
  }
  EXPECT_NEAR(hits, kDraws * 0.02, 5 * std::sqrt(kDraws * 0.02 * 0.98));
}

TEST(EntropyIdTest, IsNeverZeroAndNeverTheSame) {
  std::set<uint64_t> ids;
  for (int i = 0; i < 1000; ++i) ids.insert(EntropyId());
  EXPECT_EQ(ids.size(), 1000u);
  EXPECT_EQ(ids.count(0), 0u);
}

}  // namespace
}  // namespace rocecoll
