// SPDX-License-Identifier: Apache-2.0
#include "engine/progress/wait_habit.h"

#include <gtest/gtest.h>

#include <array>

namespace rocecoll {
namespace {

constexpr Duration kSoon = std::chrono::microseconds(10);
constexpr Duration kLater = 2 * WaitHabit::kAtOnce;

class WaitHabitTest : public testing::Test {
 protected:
  void message(Duration until_wait) {
    habit_.on_submit(&messages_[0]);
    habit_.on_wait(&messages_[0], until_wait);
  }
  void learn() {
    for (int i = 0; i < WaitHabit::kProof; ++i) {
      EXPECT_FALSE(habit_.waits_at_once());
      message(kSoon);
    }
    EXPECT_TRUE(habit_.waits_at_once());
  }

  WaitHabit habit_;
  std::array<char, 2> messages_{};
};

TEST_F(WaitHabitTest, IsLearnedFromMessagesInARow) { learn(); }

TEST_F(WaitHabitTest, IsForgottenWithOneThatComputesFirst) {
  learn();
  message(kLater);
  EXPECT_FALSE(habit_.waits_at_once());
  learn();
}

TEST_F(WaitHabitTest, IsForgottenWithOneThatIsFollowedByAnother) {
  learn();
  habit_.on_submit(&messages_[0]);
  EXPECT_TRUE(habit_.waits_at_once());
  habit_.on_submit(&messages_[1]);
  EXPECT_FALSE(habit_.waits_at_once());
}

TEST_F(WaitHabitTest, IsNothingThatASecondWaitSays) {
  habit_.on_submit(&messages_[0]);
  for (int i = 0; i < 2 * WaitHabit::kProof; ++i) habit_.on_wait(&messages_[0], kSoon);
  EXPECT_FALSE(habit_.waits_at_once());
}

}  // namespace
}  // namespace rocecoll
