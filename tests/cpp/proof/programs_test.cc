// SPDX-License-Identifier: Apache-2.0
// The checker proves every program for many numbers of ranks and roots.
#include <gtest/gtest.h>

#include "collectives/program_list.h"
#include "collectives/proof/checker.h"

namespace rocecoll {
namespace {

class EveryProgram : public testing::TestWithParam<NamedAlgorithm> {
 protected:
  // Returns how many programs there were to check.
  int check(uint32_t ranks) {
    const auto [collective, name] = GetParam();
    int checked = 0;
    for (const Rank root : RootsOf(collective, ranks)) {
      const auto program = Make(collective, name, ranks, root);
      if (!program) continue;
      for (const bool in_place : {false, true}) {
        const Status status = CheckProgram(*program, collective, root, in_place).status();
        EXPECT_TRUE(status.ok()) << program->name << ", " << ranks << " ranks, root " << root
                                 << (in_place ? ", in place: " : ": ") << status.message();
      }
      ++checked;
    }
    return checked;
  }
};

TEST_P(EveryProgram, IsRightForAnySmallNumberOfRanks) {
  int checked = 0;
  for (uint32_t ranks = 1; ranks <= 33; ++ranks) checked += check(ranks);
  EXPECT_GE(checked, 5);  // algorithms for powers of two only
}

TEST_P(EveryProgram, IsRightForManyRanks) {
  for (const uint32_t ranks : {64u, 127u, 128u}) check(ranks);
  EXPECT_GT(check(64), 0);
  check(100);
}

TEST_P(EveryProgram, IsRightForAThousandRanks) {
  const int checked = check(1000);
  EXPECT_EQ(checked > 0, GetParam().name != "halving_doubling");
}

// The engine sizes scratch by these numbers, and the step loop runs alike on every rank.
TEST_P(EveryProgram, AsksOnlyForStepsItHas) {
  const auto program = Make(GetParam().collective, GetParam().name, 8, 1);
  ASSERT_TRUE(program.has_value());
  EXPECT_EQ(program->ranks, 8u);
  EXPECT_EQ(program->name, GetParam().name);
  EXPECT_THROW(program->step(0, program->steps), CheckFailure);
  EXPECT_THROW(program->step(8, 0), CheckFailure);
}

INSTANTIATE_TEST_SUITE_P(All, EveryProgram, testing::ValuesIn(Algorithms(false)), TestName);

TEST(Programs, PointToPointRefusesTheRankItself) {
  for (const Collective collective : {Collective::kSend, Collective::kRecv}) {
    EXPECT_THROW(Make(collective, "direct", 3, 1)->step(1, 0), CheckFailure);
  }
}

}  // namespace
}  // namespace rocecoll
