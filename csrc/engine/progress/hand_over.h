// SPDX-License-Identifier: Apache-2.0
// What the threads of Progress agree on: which one steps the engine, which ones sleep meanwhile,
// and which one wakes another. Nothing here sleeps, wakes or reads a clock: the caller does, as the
// return value tells it.
//
// Two kinds of thread step the engine, always under EngineLock:
//
// - A *driver*: one thread in wait() or shutdown(), holder of the role. It spins, yields, then
//   sleeps on the transport's descriptor and its waker. Other callers in wait() stand in line: they
//   sleep until their operation is done or the role is free.
// - The background thread. It *listens* (sleeps on the descriptor and its waker until the engine's
//   next deadline) while no caller drives, and is *parked* (sleeps on its waker alone) while one
//   drives or did so a moment ago: one packet then wakes one thread. A short park ends on a timer;
//   a long one, when the same thread has driven for all of a short one, is ended by the driver that
//   leaves.
//
// Each method is one atomic step: one read-modify-write of one word, or an access of one mark after
// it. So all steps are in one order, and each sees what was written before the earlier ones: where
// two threads each write something and then look for what the other wrote, with a step between, the
// later of them sees it. hand_over_test.cc explores every order of such steps.
//
// Why no wake-up is lost:
// 1. Deadlines. A sleeper's mark is written under the lock, with the deadline at that instant. A
//    thread that steps the engine later compares the new deadline with the mark, under or after the
//    same lock, and wakes the sleeper when it is earlier (stepped, left). A caller that drives, or
//    submits and will wait, wakes the thread only when it leaves: until then it keeps the deadlines
//    itself. A parked thread looks again soon. For one that listens that is enough, too: it gets an
//    alarm (thread_soon), because to wake it now would take the core from the caller that leaves.
// 2. Completion. The finisher sets done, then looks for sleepers (completed); the sleeper announces
//    itself (its mark and about_to_sleep, or line_up), then looks at done. The later of them sees
//    what the other wrote. Those in line look and fall asleep under a mutex, which the waking
//    thread takes first, so that it never comes between the look and the sleep.
// 3. Work left behind. A caller that gives up the role, or submits without waiting, looks under the
//    lock whether operations are pending *after* it has given up the role, and then calls the
//    thread (left, call). If it sees the role taken again, the new holder will do the same later.
// Neither kind waits for anything else while it is relied upon: what completed operations kept
// alive is released by a third thread (disposer.h), or by a driver once it has given up the role.
// Wakers are sticky, so a wake between a decision to sleep and the sleep is not lost either.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/time.h"

namespace rocecoll {

// Until when a thread sleeps, written under the lock before it does. A thread that has stepped the
// engine, and so may have brought the next deadline forward, sees it and wakes the sleeper.
class SleepMark {
 public:
  void set_awake() { until_.store(kAwake); }
  void set_asleep(Instant until) { until_.store(until.time_since_epoch().count()); }
  bool asleep() const { return until_.load() != kAwake; }
  bool later_than(Instant deadline) const {
    return until_.load() > deadline.time_since_epoch().count();
  }

 private:
  static constexpr int64_t kAwake = INT64_MIN;
  std::atomic<int64_t> until_{kAwake};
};

class HandOver {
 public:
  // A caller that has just waited will likely wait again: a training step calls many operations.
  static constexpr Duration kRecently = std::chrono::milliseconds(1);
  // The end of a park takes a rank that spins off its core, and its peer waits; and an operation
  // that outlasts a park ends with a wake-up. Where either costs a millisecond (a loaded virtual
  // machine) they alone make each operation outlast a short park, for good. So each park is twice
  // as long as the last one, unless the callers were away for most of the time since that began. A
  // timer of a connection may be late by a park once a driver has left, but a caller that comes
  // back sees to it: a lost tail of callers with much work of their own waits for a short park, one
  // of others for kAway or so, and that of the last of many operations for the longest park.
  static constexpr Duration kShortPark = std::chrono::milliseconds(2);
  static constexpr Duration kLongestShortPark = std::chrono::milliseconds(32);
  // On such a machine a caller that does nothing in between may take some milliseconds as well, and
  // now and then, where others use its core, more than these.
  static constexpr Duration kAway = std::chrono::milliseconds(8);

  // The threads that the caller has to wake next, in this order.
  struct Wakes {
    bool waiters = false;  // all that stand in line
    bool driver = false;
    bool thread = false;
    bool thread_soon = false;  // in kShortPark
  };

  // A caller that waits. True: it drives, until give_up().
  bool take();
  // A caller that did not get the role stands in line, looks at done, tries once more, and sleeps.
  void line_up();
  void leave_line();

  // The driver, after each of its steps.
  void drove(Instant now);
  // Called after its step by a caller that submitted an operation to wait for it: if the step
  // completed the operation, the caller will not drive. To the background thread this counts as a
  // drive; the later of two ranks does it all the time.
  void met(Instant now);
  // Its mark says so already; it looks at done after this, and then sleeps.
  void about_to_sleep();
  // It is awake. Next it looks under the lock how things stand, for left().
  Wakes give_up();

  // Called by the thread that has set operations done.
  Wakes completed();
  // Called after a step, or a look, by a thread that does not drive now.
  Wakes stepped(Instant next_deadline) const;
  // Called by a thread that will not drive next either: the background thread keeps the deadlines,
  // and takes over (call) if operations that the caller answers for are pending.
  Wakes left(bool pending, Instant next_deadline);
  // Called by a thread that leaves work behind: the background thread takes over, unless a caller
  // drives. Sticky: one call is enough until the thread has seen it.
  Wakes call();
  // For good: the thread is to end.
  Wakes stop();

  // For the background thread only: what it is to do now.
  enum class Duty { kListen, kParkShort, kParkLong, kStop };
  Duty duty(Instant now);
  // Whether the thread is in a short park and will look again soon, so that a caller that submits
  // and most likely waits need not call it. If the park has ended by now, the thread steps the
  // engine after anything that the caller did under the lock before it asked.
  bool looks_soon() const { return (word_.load() & kParkedShort) != 0; }
  // For how long, after kParkShort.
  Duration park_time() const { return park_time_; }
  // After its step.
  Wakes listened(bool pending);

  SleepMark& driver_mark() { return driver_mark_; }
  SleepMark& thread_mark() { return thread_mark_; }

 private:
  // The word: flags, how many stand in line, how often the role was taken (modulo 2^32).
  static constexpr uint64_t kDriven = 1;
  static constexpr uint64_t kCalled = 2;
  static constexpr uint64_t kParkedLong = 4;
  static constexpr uint64_t kStopping = 8;
  static constexpr uint64_t kParkedShort = 16;
  static constexpr uint64_t kWaiter = 32;
  static constexpr uint64_t kDrive = uint64_t{1} << 32;
  static constexpr uint64_t kWaiters = kDrive - kWaiter;
  static uint32_t drive(uint64_t word) { return static_cast<uint32_t>(word / kDrive); }
  Instant last_drive() const;
  void set_last_drive(Instant now);
  Duty park_short(Instant now);

  // Replaces the word by change(word); returns what it was.
  template <typename Change>
  uint64_t update(Change change) {
    uint64_t word = word_.load(std::memory_order_relaxed);
    while (!word_.compare_exchange_weak(word, change(word), std::memory_order_acq_rel)) {
    }
    return word;
  }

  std::atomic<uint64_t> word_{0};
  // Hints: in no order with the word.
  std::atomic<int64_t> last_drive_ns_{INT64_MIN / 2};
  std::atomic<int64_t> away_ns_{0};  // for more than kAway each time, since the last short park
  SleepMark driver_mark_;
  SleepMark thread_mark_;
  bool came_ = false;  // the driver's own: no step yet
  // The thread's own.
  uint32_t watched_ = 0;             // the drive that it last parked for
  Duration park_time_ = kShortPark;  // of the last short one
  Instant park_began_{};             // as above
  bool on_duty_ = false;             // called since the last time that nothing was pending
};

}  // namespace rocecoll
