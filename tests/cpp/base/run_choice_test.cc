// SPDX-License-Identifier: Apache-2.0
#include "base/run_choice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace rocecoll {
namespace {

TEST(RunChoice, IsOfTheRangeInOrderAndWithoutRepeats) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const std::vector<uint64_t> chosen = Choose(20, 100, 160, seed);
    EXPECT_EQ(chosen.size(), 20u);
    EXPECT_GE(chosen.front(), 100u);
    EXPECT_LT(chosen.back(), 160u);
    EXPECT_EQ(std::ranges::adjacent_find(chosen, std::greater_equal()), chosen.end());
    EXPECT_EQ(chosen, Choose(20, 100, 160, seed));
  }
}

TEST(RunChoice, AllIsAllThereIs) {
  EXPECT_EQ(Choose(4, 7, 11, 1), (std::vector<uint64_t>{7, 8, 9, 10}));
  EXPECT_TRUE(Choose(0, 7, 11, 1).empty());
  EXPECT_THROW(Choose(5, 7, 11, 1), CheckFailure);
}

TEST(RunChoice, EachNumberHasItsTurn) {
  std::set<uint64_t> seen;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    for (const uint64_t number : Choose(20, 100, 160, seed)) seen.insert(number);
  }
  EXPECT_EQ(seen.size(), 60u);
}

}  // namespace
}  // namespace rocecoll
