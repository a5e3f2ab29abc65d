// SPDX-License-Identifier: Apache-2.0
#include "engine/progress/idle_wait.h"

#include <gtest/gtest.h>

namespace rocecoll {
namespace {

using Move = IdleWait::Move;
using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr Duration kSpin = microseconds(50);
constexpr Duration kYield = microseconds(20);
constexpr Duration kLook = microseconds(1);  // a step that finds nothing

// A driver on a core that it has to itself, or not: each wait begins at a step that moves nothing.
class Driver {
 public:
  explicit Driver(Duration spin_time = kSpin, bool patient = false)
      : wait_(spin_time, kYield, patient) {}

  // What comes after `delay`, on another core: steps and yields take no longer than a look.
  void hear_after(Duration delay) {
    const Instant due = now_ + delay;
    do {
      last_ = wait_.idle(now_);
      now_ += kLook;
    } while (now_ < due);
    wait_.moved(now_);
  }

  // What comes once the driver has slept, so long after the wait began.
  void sleep_through(Duration delay) {
    wait_.begin();
    const Instant due = now_ + delay;
    while (wait_.idle(now_) != Move::kSleep) now_ += kLook;
    now_ = std::max(now_, due);
    wait_.moved(now_);
  }

  // What comes only once the driver lets another program run, which then has the core for `turn`.
  void hear_after_turn(Duration turn) {
    Duration spun{0};
    while ((last_ = wait_.idle(now_)) == Move::kSpin) {
      now_ += kLook;
      spun += kLook;
    }
    spun_ = spun;
    now_ += turn;
    wait_.moved(now_);
  }

  Duration spun() const { return spun_; }
  Move last() const { return last_; }
  bool core_is_shared() const { return wait_.core_is_shared(); }
  // Yields that each let another program have the core for `turn`, none of which brings anything:
  // how long until the driver sleeps.
  Duration yields_through(Duration turn) {
    wait_.begin();
    const Instant began = now_;
    while (wait_.idle(now_) == Move::kYield) now_ += turn;
    return now_ - began;
  }
  Move idle_on() { return wait_.idle(now_ += kLook); }
  // What comes after so much time in which neither spins nor yields brought anything.
  Move idle_for(Duration time) {
    wait_.begin();
    const Instant end = now_ + time;
    for (; now_ < end; now_ += kLook) wait_.idle(now_);
    return wait_.idle(now_);
  }

 private:
  IdleWait wait_;
  Instant now_{microseconds(1)};
  Move last_ = Move::kSleep;
  Duration spun_{};
};

TEST(IdleWait, SpinsThenYieldsThenSleeps) {
  Driver driver;
  EXPECT_EQ(driver.idle_for(kSpin - kLook), Move::kSpin);
  EXPECT_EQ(driver.idle_for(kSpin), Move::kYield);
  EXPECT_EQ(driver.idle_for(kSpin + kYield), Move::kSleep);
}

TEST(IdleWait, YieldsAtOnceToAPeerOnItsCore) {
  Driver driver;
  for (int i = 0; i < IdleWait::kProof; ++i) {
    EXPECT_FALSE(driver.core_is_shared());
    driver.hear_after_turn(microseconds(60));
    EXPECT_EQ(driver.spun(), kSpin);
  }
  EXPECT_TRUE(driver.core_is_shared());
  driver.hear_after_turn(microseconds(60));
  EXPECT_EQ(driver.spun(), Duration{0});
}

TEST(IdleWait, SpinsAgainOnceThePeerHasACoreOfItsOwn) {
  Driver driver;
  for (int i = 0; i < IdleWait::kProof; ++i) driver.hear_after_turn(microseconds(60));
  ASSERT_TRUE(driver.core_is_shared());
  for (int i = 0; i < IdleWait::kProof; ++i) {
    EXPECT_TRUE(driver.core_is_shared());
    driver.hear_after(microseconds(10));
    EXPECT_EQ(driver.last(), Move::kYield);
  }
  EXPECT_FALSE(driver.core_is_shared());
  driver.hear_after(microseconds(10));
  EXPECT_EQ(driver.last(), Move::kSpin);
}

// A program that computes takes its whole slice, in which the peer's word comes from another core.
TEST(IdleWait, GivesNoTimeSlicesAwayToAProgramThatComputes) {
  Driver driver;
  for (int i = 0; i < 100; ++i) {
    driver.hear_after_turn(milliseconds(3));
    ASSERT_FALSE(driver.core_is_shared());
  }
  for (int i = 0; i < IdleWait::kProof; ++i) driver.hear_after_turn(microseconds(60));
  ASSERT_TRUE(driver.core_is_shared());
  driver.hear_after_turn(milliseconds(3));
  EXPECT_FALSE(driver.core_is_shared());
}

TEST(IdleWait, GivesNoTimeSlicesAwayThatBroughtNothing) {
  Driver driver;
  for (int i = 0; i < IdleWait::kProof; ++i) driver.hear_after_turn(microseconds(60));
  ASSERT_TRUE(driver.core_is_shared());
  EXPECT_EQ(driver.yields_through(milliseconds(3)), milliseconds(3));
  EXPECT_FALSE(driver.core_is_shared());
}

// Rounds in which the peer answers while we spin show that it has a core.
TEST(IdleWait, BelievesOnlyWaitsInARow) {
  Driver driver;
  for (int i = 0; i < 100; ++i) {
    for (int k = 1; k < IdleWait::kProof; ++k) driver.hear_after_turn(microseconds(60));
    driver.hear_after(microseconds(10));
    ASSERT_EQ(driver.last(), Move::kSpin);
    ASSERT_FALSE(driver.core_is_shared());
  }
}

// The network's delay alone, a little longer than the spinning: yields that let nobody run.
TEST(IdleWait, TakesALateAnswerForNoSharedCore) {
  Driver driver;
  for (int i = 0; i < 100; ++i) {
    driver.hear_after(kSpin + kYield / 2);
    ASSERT_EQ(driver.last(), Move::kYield);
    ASSERT_FALSE(driver.core_is_shared());
  }
}

TEST(IdleWait, YieldsWithoutSpinningWhereItIsToldNotToSpin) {
  Driver driver(Duration{0});
  EXPECT_EQ(driver.idle_for(Duration{0}), Move::kYield);
  EXPECT_EQ(driver.idle_for(kYield), Move::kSleep);
}

// Each of the other ranks on this core may be the one that sends what is waited for.
TEST(IdleWait, YieldsThatLetOthersRunAreNoWaiting) {
  Driver driver(Duration{0});
  EXPECT_EQ(driver.yields_through(kLook), kYield);
  EXPECT_EQ(driver.yields_through(microseconds(60)), IdleWait::kLongestYielding + microseconds(20));
}

class PatientDriver : public Driver {
 public:
  explicit PatientDriver(Duration spin_time = kSpin) : Driver(spin_time, true) {}
};

TEST(IdleWait, YieldsOnWhileNobodyElseRunsIfItIsPatient) {
  PatientDriver driver;
  EXPECT_EQ(driver.idle_for(kSpin - kLook), Move::kSpin);
  EXPECT_EQ(driver.idle_for(kSpin + kYield), Move::kYield);
  EXPECT_EQ(driver.idle_for(IdleWait::kLongestPatience), Move::kYield);
  EXPECT_EQ(driver.idle_for(kSpin + IdleWait::kLongestPatience), Move::kSleep);
}

TEST(IdleWait, IsNotPatientWithProgramsThatRun) {
  PatientDriver driver(Duration{0});
  EXPECT_EQ(driver.yields_through(milliseconds(3)), milliseconds(3));
  EXPECT_EQ(driver.yields_through(microseconds(60)), IdleWait::kLongestYielding + microseconds(20));
}

TEST(IdleWait, LosesPatienceWithWaitsThatAllOutlastIt) {
  PatientDriver driver;
  for (int i = 0; i < IdleWait::kProof; ++i) {
    EXPECT_EQ(driver.idle_for(kSpin + kYield), Move::kYield);
    driver.sleep_through(2 * IdleWait::kLongestPatience);
  }
  EXPECT_EQ(driver.idle_for(kSpin + kYield), Move::kSleep);
}

// What spinning ends comes in between: most operations of a step follow each other at once.
TEST(IdleWait, FindsPatienceAgainWhenWaitsBecomeShorter) {
  PatientDriver driver;
  for (int i = 0; i < 10 * IdleWait::kProof; ++i) {
    driver.sleep_through(2 * IdleWait::kLongestPatience);
    driver.hear_after(kLook);
  }
  for (int i = 0; i < IdleWait::kProof; ++i) {
    EXPECT_EQ(driver.idle_for(kSpin + kYield), Move::kSleep);
    driver.sleep_through(IdleWait::kLongestPatience / 2);
    driver.hear_after(kLook);
  }
  EXPECT_EQ(driver.idle_for(kSpin + kYield), Move::kYield);
}

// What wakes it and brings nothing does not begin the yielding anew.
TEST(IdleWait, SleepsOnUntilSomethingMoves) {
  Driver driver(Duration{0});
  driver.yields_through(milliseconds(3));
  EXPECT_EQ(driver.idle_on(), Move::kSleep);
  EXPECT_EQ(driver.idle_on(), Move::kSleep);
  driver.hear_after(Duration{0});
  EXPECT_EQ(driver.idle_for(Duration{0}), Move::kYield);
}

}  // namespace
}  // namespace rocecoll
