// SPDX-License-Identifier: Apache-2.0
#include "engine/progress/waker.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>

#include <array>
#include <chrono>

#include "base/monotonic_clock.h"

namespace rocecoll {
namespace {

// Each sleep is for ever, or the test does not end.
TEST(Waker, AnyDescriptorEndsASleep) {
  constexpr size_t kMost = WaitHandle::kMostDescriptors;
  Waker waker = Waker::Open().take();
  std::array<Descriptor, kMost> events;
  WaitHandle handle;
  for (Descriptor& event : events) {
    event = Descriptor(::eventfd(0, EFD_CLOEXEC));
    handle = handle.joined(WaitHandle(event));
  }
  for (const Descriptor& event : events) {
    ASSERT_EQ(::eventfd_write(event, 1), 0);
    waker.sleep(handle, Duration::max());
    eventfd_t count = 0;
    ASSERT_EQ(::eventfd_read(event, &count), 0);
  }
}

TEST(Waker, AWakeEndsTheSleepAfterIt) {
  Waker waker = Waker::Open().take();
  waker.wake();
  waker.sleep({}, Duration::max());
  waker.sleep({}, std::chrono::milliseconds(1));  // it was taken back
}

// A sleep for ever ends, so that the alarm is what has ended it.
TEST(Waker, AnAlarmEndsASleepLater) {
  Waker waker = Waker::Open().take();
  for (int i = 0; i < 2; ++i) {
    const Instant begun = MonotonicNow();
    waker.wake_in(std::chrono::milliseconds(5));
    waker.wake_in(std::chrono::hours(1));  // the first one counts
    waker.sleep({}, Duration::max());
    EXPECT_GE(MonotonicNow() - begun, std::chrono::milliseconds(5)) << i;
  }
}

TEST(Waker, WhoeverIsWokenBeforeHasNoAlarmAnyMore) {
  Waker waker = Waker::Open().take();
  waker.wake_in(std::chrono::milliseconds(1));
  waker.wake();
  waker.sleep({}, Duration::max());
  const Instant begun = MonotonicNow();
  waker.sleep({}, std::chrono::milliseconds(20));
  EXPECT_GE(MonotonicNow() - begun, std::chrono::milliseconds(20));
}

}  // namespace
}  // namespace rocecoll
