// SPDX-License-Identifier: Apache-2.0
// Mail that comes while another thread holds the progress lock, at every point where it may:
// whoever lets the lock go steps for it, and must then know the deadlines that it brought.
#include "engine/progress/engine_lock.h"

#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "base/monotonic_clock.h"
#include "engine/one_receive.h"
#include "engine/progress/hand_over.h"
#include "engine/progress/mute_transport.h"
#include "engine/progress/progress.h"

namespace rocecoll {
namespace {

using Next = Progress::Next;

constexpr Duration kTimeout = std::chrono::minutes(1);
constexpr Duration kLong = std::chrono::minutes(30);

GroupSpec TwoRanks() {
  GroupSpec spec;
  spec.name = "g";
  spec.key.high = 1;
  spec.addresses = std::vector<Address>(2);
  spec.timeout = kLong;
  return spec;
}

// From a rank that never sends.
OperationPtr Receive(int32_t& into, Duration timeout) {
  OperationSpec spec = OneReceive(into, 1);
  spec.timeout = timeout;
  return std::make_shared<Operation>(std::move(spec), nullptr);
}

class Lock : public testing::Test {
 protected:
  Lock() {
    lock_.with([&](Engine& engine) {
      auto added = engine.add_group(TwoRanks());
      ASSERT_TRUE(added.ok()) << added.status().message();
      group_ = added.value();
    });
  }

  // Another thread finds the lock taken, leaves its operation in the mailbox and goes on. Once.
  void mail() {
    if (std::exchange(mailed_, true)) return;
    std::thread([&] {
      Status refused;
      const auto outcome = lock_.submit(group_, Receive(received_, kTimeout), refused);
      EXPECT_TRUE(refused.ok()) << refused.message();
      EXPECT_TRUE(outcome.pending);
    }).join();
  }

  // How things stand, by somebody who looks after all others.
  Instant latest() {
    return lock_.with([](Engine&) {}).next_deadline;
  }

  int32_t received_ = 0;
  bool mailed_ = false;
  MuteTransport transport_;
  EngineLock lock_{transport_, EngineOptions{}};
  GroupId group_ = 0;
};

TEST_F(Lock, TellsTheDeadlineOfMailThatCameDuringACall) {
  const auto outcome = lock_.with([&](Engine&) { mail(); });
  ASSERT_TRUE(mailed_);
  EXPECT_LE(outcome.next_deadline, MonotonicNow() + kTimeout);
  EXPECT_EQ(outcome.next_deadline, latest());
}

TEST_F(Lock, TellsTheDeadlineOfMailThatCameWhileAnotherOperationWasSubmitted) {
  const Instant brought = MonotonicNow() - kTimeout;  // by the step for the mail, before all others
  transport_.on_poll = [&] {
    if (mailed_) transport_.deadline = brought;
    mail();
  };
  int32_t into = 0;
  Status refused;
  const auto outcome = lock_.submit(group_, Receive(into, kLong), refused);
  ASSERT_TRUE(mailed_ && refused.ok());
  EXPECT_EQ(outcome.next_deadline, brought);
}

TEST_F(Lock, KeepsAThreadAwakeWhenMailCameWhileItStepped) {
  transport_.on_poll = [&] { mail(); };
  SleepMark mark;
  const auto outcome = lock_.step(&mark);
  ASSERT_TRUE(mailed_);
  EXPECT_TRUE(outcome.moved);
}

TEST_F(Lock, KeepsAThreadAwakeWhenMailCameAfterItHadArmed) {
  transport_.on_arm = [&] { mail(); };
  SleepMark mark;
  const auto outcome = lock_.step(&mark);
  ASSERT_TRUE(mailed_);
  EXPECT_TRUE(outcome.moved);
}

// Whoever finds the lock taken leaves mail and gets no deadline.
TEST_F(Lock, IsFreeAfterSomethingWasThrownUnderIt) {
  EXPECT_THROW(lock_.with([](Engine&) { throw std::runtime_error("thrown"); }), std::runtime_error);
  transport_.on_arm = [] { throw std::runtime_error("thrown"); };
  SleepMark mark;
  EXPECT_THROW(lock_.step(&mark), std::runtime_error);
  transport_.on_arm = nullptr;
  Status refused;
  const auto outcome = lock_.submit(group_, Receive(received_, kTimeout), refused);
  EXPECT_TRUE(refused.ok()) << refused.message();
  EXPECT_LE(outcome.next_deadline, MonotonicNow() + kTimeout);
}

TEST_F(Lock, GroupsFailWithWhateverAStepThrows) {
  transport_.on_poll = [] { throw std::length_error("too long by far"); };
  lock_.step();
  lock_.with([&](Engine& engine) {
    const Status status = engine.group_status(group_);
    EXPECT_EQ(status.code(), StatusCode::kInternal);
    EXPECT_NE(status.message().find("too long by far"), std::string::npos) << status.message();
  });
}

// A driver sleeps until its own deadline, far away. Mail with a near one is left by a thread that
// then waits, and stepped for by a third one, which only looked.
TEST(Progress, WakesADriverForTheDeadlineOfMailThatAnotherThreadSteppedFor) {
  auto made = std::make_unique<MuteTransport>();
  MuteTransport& transport = *made;
  std::promise<void> asleep;
  bool told = false;
  // The last of the engine's own timers: telling the peer that a message is waited for.
  transport.on_arm = [&] {
    if (transport.frames_sent > 0 && !std::exchange(told, true)) asleep.set_value();
  };
  auto started = Progress::Start(std::move(made), EngineOptions{}, ProgressOptions{});
  ASSERT_TRUE(started.ok()) << started.status().message();
  Progress& progress = *started.value();
  auto added = progress.add_group(TwoRanks());
  ASSERT_TRUE(added.ok());
  const GroupId group = added.value();

  int32_t far_into = 0;
  const OperationPtr far = Receive(far_into, kLong);
  std::thread driver([&] {
    EXPECT_TRUE(progress.submit(group, far, Next::kWaits).ok());
    EXPECT_FALSE(progress.wait(far).ok());
  });
  EXPECT_EQ(asleep.get_future().wait_for(std::chrono::seconds(30)), std::future_status::ready);

  int32_t near_into = 0;
  const OperationPtr near = Receive(near_into, std::chrono::milliseconds(50));
  transport.on_stats = [&] {
    std::thread([&] { EXPECT_TRUE(progress.submit(group, near, Next::kWaits).ok()); }).join();
  };
  progress.stats();
  const Status status = progress.wait(near, std::chrono::seconds(30));
  EXPECT_TRUE(near->done()) << "the driver slept past its deadline: " << status.message();
  progress.abort(group, Status(StatusCode::kAborted, "the test is over"));
  driver.join();
}

// The thread sleeps without a deadline when somebody steps that has no reason to wait.
TEST(Progress, WakesTheThreadForADeadlineOfASubmitThatNobodyWaitsFor) {
  auto made = std::make_unique<MuteTransport>();
  MuteTransport& transport = *made;
  std::promise<void> asleep;
  bool told = false;
  transport.on_arm = [&] {
    if (!std::exchange(told, true)) asleep.set_value();
  };
  std::promise<void> stepped;
  int polls = 0;
  auto started = Progress::Start(std::move(made), EngineOptions{}, ProgressOptions{});
  ASSERT_TRUE(started.ok()) << started.status().message();
  Progress& progress = *started.value();
  ASSERT_EQ(asleep.get_future().wait_for(std::chrono::seconds(30)), std::future_status::ready);
  progress.stats();  // the thread has let go of the lock
  transport.on_poll = [&] {
    ++polls;
    transport.deadline = polls == 1 ? MonotonicNow() : kNever;
    if (polls == 2) stepped.set_value();
  };
  int32_t into = 0;
  EXPECT_FALSE(progress.submit(1, Receive(into, kLong), Next::kWaits).ok());  // there is no group
  EXPECT_EQ(stepped.get_future().wait_for(std::chrono::seconds(30)), std::future_status::ready);
}

}  // namespace
}  // namespace rocecoll
