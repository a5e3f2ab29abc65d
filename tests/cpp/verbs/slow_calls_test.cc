// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/slow_calls.h"

#include <gtest/gtest.h>

#include <functional>
#include <latch>
#include <memory>
#include <thread>
#include <vector>

#include "transport/readable.h"

namespace rocecoll {
namespace {

constexpr int kPatienceMs = 20'000;

bool Readable(const SlowCalls& calls, int timeout_ms) {
  return WaitReadable(WaitHandle(calls.wake_descriptor()), timeout_ms);
}

TEST(SlowCalls, AreMadeInOrderElsewhereAndEndHere) {
  const auto calls = SlowCalls::Start().take();
  std::latch gate(1);
  std::vector<int> made;   // by the other thread
  std::vector<int> ended;  // by this one
  std::thread::id maker;
  for (int i = 0; i < 5; ++i) {
    calls->submit(
        [&, i] {
          gate.wait();
          maker = std::this_thread::get_id();
          made.push_back(i);
        },
        [&, i] { ended.push_back(i); });
  }
  calls->finish();
  EXPECT_TRUE(ended.empty());
  EXPECT_FALSE(Readable(*calls, 0));
  gate.count_down();
  while (ended.size() < 5 && Readable(*calls, kPatienceMs)) calls->finish();
  EXPECT_EQ(ended, (std::vector{0, 1, 2, 3, 4}));
  EXPECT_EQ(made, ended);
  EXPECT_NE(maker, std::this_thread::get_id());
  EXPECT_FALSE(Readable(*calls, 0));
}

TEST(SlowCalls, OneThatHasNotBegunCanBeWithdrawn) {
  const auto calls = SlowCalls::Start().take();
  std::latch begun(1);
  std::latch gate(1);
  int ends = 0;
  const auto end = [&ends] { ++ends; };
  const auto token = std::make_shared<int>();
  const uint64_t first = calls->submit(
      [&] {
        begun.count_down();
        gate.wait();
      },
      end);
  const uint64_t second = calls->submit([token] { FAIL(); }, end);
  begun.wait();
  EXPECT_FALSE(calls->withdraw(first));
  EXPECT_TRUE(calls->withdraw(second));
  EXPECT_FALSE(calls->withdraw(second));
  EXPECT_EQ(token.use_count(), 1);
  gate.count_down();
  EXPECT_TRUE(Readable(*calls, kPatienceMs));
  EXPECT_FALSE(calls->withdraw(first)) << "over, but not ended";
  calls->finish();
  EXPECT_EQ(ends, 1);
}

// An end may submit the next call, as that of a queue pair does when it looks again.
TEST(SlowCalls, EndsMaySubmitOthers) {
  const auto calls = SlowCalls::Start().take();
  int left = 3;
  std::function<void()> again = [&] {
    if (--left > 0) calls->submit([] {}, again);
  };
  calls->submit([] {}, again);
  while (left > 0 && Readable(*calls, kPatienceMs)) calls->finish();
  EXPECT_EQ(left, 0);
}

TEST(SlowCalls, TheirEndIsNotToldWhereTheOwnerHasGone) {
  auto calls = SlowCalls::Start().take();
  std::latch begun(1);
  std::latch gate(1);
  bool made = false;
  const auto token = std::make_shared<int>();
  calls->submit(
      [&, token] {
        begun.count_down();
        gate.wait();
        made = true;
      },
      [] { FAIL(); });
  calls->submit([token] {}, [] { FAIL(); });  // made only if it begins in time
  begun.wait();
  std::thread opener([&gate] { gate.count_down(); });
  calls.reset();
  EXPECT_TRUE(made);
  EXPECT_EQ(token.use_count(), 1);
  opener.join();
}

}  // namespace
}  // namespace rocecoll
