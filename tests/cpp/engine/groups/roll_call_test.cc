// SPDX-License-Identifier: Apache-2.0
// Whom a roll call asks, and when it is over.
#include "engine/groups/roll_call.h"

#include <gtest/gtest.h>

namespace rocecoll {
namespace {

using std::chrono::milliseconds;

TEST(RollCall, AsksAgainUntilAllHaveAnsweredOrTheTimeIsOver) {
  Instant now{};
  RollCall call;
  EXPECT_FALSE(call.active());
  call.begin(now, 7, 4, 1);
  std::vector<Rank> asked;
  const auto ask = [&] {
    asked.clear();
    call.ask(now, [&](Rank rank) { asked.push_back(rank); });
  };
  ask();
  EXPECT_EQ(asked, (std::vector<Rank>{0, 2, 3}));
  ask();
  EXPECT_TRUE(asked.empty());
  call.on_answer(2, 6, true);  // to an older question
  call.on_answer(0, 7, false);
  call.on_answer(3, 7, true);
  call.on_answer(3, 7, false);
  now = call.next_look();
  ask();
  EXPECT_EQ(asked, (std::vector<Rank>{2}));
  EXPECT_EQ(call.absent(), (std::vector<Rank>{0}));
  EXPECT_EQ(call.silent(), (std::vector<Rank>{2}));
  int rounds = 0;
  for (; !call.over(now) && rounds < 100; ++rounds) {
    ask();
    now = call.next_look();
  }
  EXPECT_LT(rounds, 10);
  RollCall answered;
  answered.begin(now, 1, 2, 0);
  EXPECT_FALSE(answered.over(now));
  answered.on_answer(1, 1, true);
  EXPECT_TRUE(answered.over(now));
  EXPECT_LE(answered.next_look(), now);
}

// A peer may send anything. The number of no collective is 0.
TEST(RollCall, TakesNoAnswersWhileItAsksNobody) {
  RollCall call;
  call.on_answer(2, 0, true);
  EXPECT_FALSE(call.active());
  call.begin(Instant{}, 7, 4, 1);
  call.end();
  call.on_answer(2, 0, false);
  call.on_answer(2, 7, false);
  EXPECT_FALSE(call.active());
  EXPECT_TRUE(call.absent().empty());
}

}  // namespace
}  // namespace rocecoll
