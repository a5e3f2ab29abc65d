// SPDX-License-Identifier: Apache-2.0
#include "engine/progress/hand_over.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace rocecoll {

bool HandOver::take() {
  uint64_t word = word_.load(std::memory_order_acquire);
  do {
    if ((word & kDriven) != 0) return false;
  } while (!word_.compare_exchange_weak(word, (word | kDriven) + kDrive, std::memory_order_acq_rel,
                                        std::memory_order_acquire));
  came_ = true;
  return true;
}

void HandOver::line_up() { word_.fetch_add(kWaiter, std::memory_order_acq_rel); }

void HandOver::leave_line() { word_.fetch_sub(kWaiter, std::memory_order_acq_rel); }

Instant HandOver::last_drive() const {
  return Instant(Duration(last_drive_ns_.load(std::memory_order_relaxed)));
}

void HandOver::set_last_drive(Instant now) {
  last_drive_ns_.store(now.time_since_epoch().count(), std::memory_order_relaxed);
}

void HandOver::met(Instant now) {
  const Duration away = now - last_drive();
  if (away > kAway) away_ns_.fetch_add(away.count(), std::memory_order_relaxed);
  set_last_drive(now);
}

void HandOver::drove(Instant now) {
  if (std::exchange(came_, false)) return met(now);
  set_last_drive(now);
}

void HandOver::about_to_sleep() { word_.fetch_add(0, std::memory_order_acq_rel); }

HandOver::Wakes HandOver::give_up() {
  const uint64_t was = word_.fetch_and(~kDriven, std::memory_order_acq_rel);
  ROCECOLL_CHECK((was & kDriven) != 0);
  return {.waiters = (was & kWaiters) != 0, .thread = (was & kParkedLong) != 0};
}

HandOver::Wakes HandOver::left(bool pending, Instant next_deadline) {
  if (pending) return call();
  return {.thread_soon = thread_mark_.later_than(next_deadline)};
}

HandOver::Wakes HandOver::completed() {
  const uint64_t word = word_.fetch_add(0, std::memory_order_acq_rel);
  return {.waiters = (word & kWaiters) != 0, .driver = driver_mark_.asleep()};
}

HandOver::Wakes HandOver::stepped(Instant next_deadline) const {
  return {.driver = driver_mark_.later_than(next_deadline)};
}

HandOver::Wakes HandOver::call() {
  const uint64_t was =
      update([](uint64_t word) { return (word & kDriven) != 0 ? word : word | kCalled; });
  return {.thread = (was & (kDriven | kCalled)) == 0};
}

HandOver::Wakes HandOver::stop() {
  word_.fetch_or(kStopping, std::memory_order_acq_rel);
  return {.thread = true};
}

HandOver::Duty HandOver::duty(Instant now) {
  // A driver that leaves after this step sees that we are parked; one that left before is gone.
  const auto drives_on = [this](uint64_t word) {
    return (word & kDriven) != 0 && drive(word) == watched_;
  };
  const uint64_t was = update([&](uint64_t word) {
    return (word & ~(kCalled | kParkedLong | kParkedShort)) | (drives_on(word) ? kParkedLong : 0);
  });
  if ((was & kStopping) != 0) return Duty::kStop;
  if (drives_on(was)) return Duty::kParkLong;
  if ((was & kCalled) != 0) on_duty_ = true;
  if ((was & kDriven) != 0) {
    watched_ = drive(was);
    on_duty_ = false;  // a driver calls again if it leaves work behind
    return park_short(now);
  }
  return !on_duty_ && now < last_drive() + kRecently ? park_short(now) : Duty::kListen;
}

HandOver::Duty HandOver::park_short(Instant now) {
  const Duration away{away_ns_.exchange(0, std::memory_order_relaxed)};
  const bool anew = away > (now - park_began_) / 2;
  park_time_ = anew ? kShortPark : std::min(2 * park_time_, kLongestShortPark);
  park_began_ = now;
  word_.fetch_or(kParkedShort, std::memory_order_acq_rel);
  return Duty::kParkShort;
}

// Somebody may have begun to drive while the thread stepped.
HandOver::Wakes HandOver::listened(bool pending) {
  if (!pending) on_duty_ = false;
  return {.driver = driver_mark_.asleep()};
}

}  // namespace rocecoll
