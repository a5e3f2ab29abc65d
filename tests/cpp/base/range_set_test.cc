// SPDX-License-Identifier: Apache-2.0
#include "base/range_set.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "base/random.h"

namespace rocecoll {
namespace {

using Range = RangeSet::Range;

std::vector<Range> RangesOf(const RangeSet& set) {
  return {set.ranges().begin(), set.ranges().end()};
}

TEST(RangeSet, MergesWhatTouches) {
  RangeSet set;
  EXPECT_EQ(set.insert(10, 20), 10u);
  EXPECT_EQ(set.insert(30, 40), 10u);
  EXPECT_EQ(set.insert(20, 30), 10u);
  EXPECT_EQ(RangesOf(set), (std::vector<Range>{{10, 40}}));
  EXPECT_EQ(set.insert(15, 45), 5u);
  EXPECT_EQ(set.insert(12, 13), 0u);
  EXPECT_EQ(set.total(), 35u);
}

TEST(RangeSet, ErasesTheMiddleOfARange) {
  RangeSet set;
  set.insert(0, 100);
  set.erase(40, 60);
  EXPECT_EQ(RangesOf(set), (std::vector<Range>{{0, 40}, {60, 100}}));
  EXPECT_TRUE(set.covers(60, 100));
  EXPECT_FALSE(set.covers(39, 41));
  set.erase(0, 100);
  EXPECT_TRUE(set.empty());
}

TEST(RangeSet, EmptyRangesChangeNothing) {
  RangeSet set;
  EXPECT_EQ(set.insert(5, 5), 0u);
  set.erase(5, 5);
  EXPECT_TRUE(set.empty());
  EXPECT_TRUE(set.covers(7, 7));
}

TEST(RangeSet, BehavesAsASetOfIntegers) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    Random random(seed);
    RangeSet set;
    std::set<uint64_t> model;
    for (int step = 0; step < 300; ++step) {
      const uint64_t begin = random.below(120);
      const uint64_t end = begin + random.below(12);
      if (random.chance(0.6)) {
        uint64_t added = 0;
        for (uint64_t v = begin; v < end; ++v) added += model.insert(v).second ? 1 : 0;
        ASSERT_EQ(set.insert(begin, end), added);
      } else {
        for (uint64_t v = begin; v < end; ++v) model.erase(v);
        set.erase(begin, end);
      }
      ASSERT_EQ(set.total(), model.size());
      std::set<uint64_t> missing;
      set.for_each_missing(20, 100, [&](uint64_t b, uint64_t e) {
        ASSERT_LT(b, e);
        for (uint64_t v = b; v < e; ++v) missing.insert(v);
      });
      for (uint64_t v = 0; v < 135; ++v) {
        ASSERT_EQ(set.contains(v), model.count(v) == 1) << seed << " " << step << " " << v;
        ASSERT_EQ(missing.count(v) == 1, v >= 20 && v < 100 && model.count(v) == 0);
      }
      for (size_t i = 1; i < set.ranges().size(); ++i) {
        ASSERT_LT(set.ranges()[i - 1].end, set.ranges()[i].begin);
      }
    }
  }
}

}  // namespace
}  // namespace rocecoll
