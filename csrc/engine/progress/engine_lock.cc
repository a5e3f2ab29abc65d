// SPDX-License-Identifier: Apache-2.0
#include "engine/progress/engine_lock.h"

#include <algorithm>
#include <iterator>
#include <thread>
#include <utility>

#include "base/monotonic_clock.h"
#include "engine/progress/hand_over.h"

namespace rocecoll {
namespace {

// How long a thread that steps again and again stands back for one that waits for the lock.
constexpr int kStandBack = 100;

}  // namespace

// A mutex is not fair: a driver that unlocks and locks again at once would starve others.
EngineLock::Held EngineLock::lock() {
  for (int i = 0; i < kStandBack && contenders_.load() > 0; ++i) std::this_thread::yield();
  Held held(mutex_, std::try_to_lock);
  if (held) return held;
  contenders_.fetch_add(1);
  held.lock();
  contenders_.fetch_sub(1);
  return held;
}

// Releases the lock, and steps for mail that came meanwhile unless another thread does. Such a step
// may bring the next deadline forward: the outcome has the new one, and a caller that was about to
// sleep until the old one looks again first.
void EngineLock::unlock(Held held, Outcome& outcome) {
  collect(outcome);
  held.unlock();
  while (!mailbox_.empty() && held.try_lock()) {
    take_mail(outcome);
    engine_.step(MonotonicNow());
    outcome.moved = true;
    outcome.next_deadline = engine_.next_deadline();
    collect(outcome);
    held.unlock();
  }
}

void EngineLock::collect(Outcome& outcome) {
  auto completed = engine_.take_completed();
  if (outcome.completed.empty()) {
    outcome.completed = std::move(completed);
  } else {
    std::ranges::move(completed, std::back_inserter(outcome.completed));
  }
  const bool lingering = transport_.lingering();
  lingering_.store(lingering);
  outcome.pending = lingering || engine_.has_pending();
}

void EngineLock::refuse(const OperationPtr& operation, Status why, Outcome& outcome) {
  operation->set_status(std::move(why));
  outcome.completed.push_back(operation);
}

void EngineLock::take_mail(Outcome& outcome) {
  mailbox_.take(taken_);
  for (Mail& mail : taken_) {
    Status status = engine_.submit(MonotonicNow(), mail.group, mail.operation);
    if (!status.ok()) refuse(mail.operation, std::move(status), outcome);
    outcome.moved = true;
  }
  taken_.clear();
}

EngineLock::Outcome EngineLock::step(SleepMark* mark) {
  Outcome outcome;
  Held held = lock();
  take_mail(outcome);
  outcome.now = MonotonicNow();
  if (engine_.step(outcome.now)) outcome.moved = true;
  if (mark != nullptr && !outcome.moved && !transport_.arm()) outcome.moved = true;
  if (mark != nullptr && !outcome.moved) {
    outcome.next_deadline = engine_.next_deadline();
    mark->set_asleep(outcome.next_deadline);
  }
  unlock(std::move(held), outcome);
  return outcome;
}

EngineLock::Outcome EngineLock::submit(GroupId group, const OperationPtr& operation,
                                       Status& refused) {
  Outcome outcome;
  Held held(mutex_, std::try_to_lock);
  if (!held) {
    outcome.mailed = mailbox_.push({group, operation});
    if (!outcome.mailed) {
      held = lock();
    } else if (!held.try_lock()) {
      outcome.next_deadline = kNever;
      outcome.pending = true;
      return outcome;
    }
  }
  take_mail(outcome);
  outcome.now = MonotonicNow();
  if (!outcome.mailed) refused = engine_.submit(outcome.now, group, operation);
  engine_.step(outcome.now);
  outcome.next_deadline = engine_.next_deadline();
  unlock(std::move(held), outcome);
  return outcome;
}

EngineLock::Outcome EngineLock::with(const std::function<void(Engine&)>& call) {
  Outcome outcome;
  Held held = lock();
  take_mail(outcome);
  call(engine_);
  outcome.next_deadline = engine_.next_deadline();
  unlock(std::move(held), outcome);
  return outcome;
}

}  // namespace rocecoll
