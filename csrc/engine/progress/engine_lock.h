// SPDX-License-Identifier: Apache-2.0
// The engine behind the progress lock. Any thread may step it; none sleeps while it holds the lock.
//
// Submitting never waits for a step of another thread: the operation goes into the mailbox, where
// the thread that holds the lock looks again after releasing it. No mail is left behind: if that
// look came before the push, the lock was already free when the submitter tried it after the push.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "engine/engine.h"
#include "engine/operations/operation.h"

namespace rocecoll {

class SleepMark;

struct Mail {
  GroupId group = 0;
  OperationPtr operation;
};

// Operations submitted while another thread held the lock. Thread safe, bounded, in order.
class Mailbox {
 public:
  static constexpr size_t kCapacity = 1024;

  // False when full: the caller waits for the lock instead.
  bool push(Mail mail) {
    const std::lock_guard lock(mutex_);
    if (mail_.size() == kCapacity) return false;
    mail_.push_back(std::move(mail));
    return true;
  }
  // Moves the mail into `into`, which must be empty.
  void take(std::vector<Mail>& into) {
    const std::lock_guard lock(mutex_);
    into.swap(mail_);
  }
  bool empty() {
    const std::lock_guard lock(mutex_);
    return mail_.empty();
  }

 private:
  std::mutex mutex_;
  std::vector<Mail> mail_;
};

class EngineLock {
 public:
  EngineLock(Transport& transport, const EngineOptions& options)
      : transport_(transport), engine_(transport, options) {}

  struct Outcome {
    bool moved = false;
    bool pending = false;     // operations not complete, or links lingering
    bool mailed = false;      // by submit(): another thread may have taken and completed it
    Instant now{};            // when the step ran
    Instant next_deadline{};  // after the last step; of step() with a mark, submit() and with()
    std::vector<OperationPtr> completed;
  };
  // Steps once. With `mark`, and if nothing moved, marks the caller as asleep until the next
  // deadline before the lock is released. The caller may sleep unless the outcome says that
  // something has moved, which may be after the mark was set.
  Outcome step(SleepMark* mark = nullptr);
  // Takes the operation and steps, if the lock is free; else leaves it in the mailbox. Then a
  // refusal shows as the operation's status.
  Outcome submit(GroupId group, const OperationPtr& operation, Status& refused);
  // Runs `call` under the lock and says how things stand after it.
  Outcome with(const std::function<void(Engine&)>& call);
  // As of the last release of the lock.
  bool lingering() const { return lingering_.load(); }

 private:
  // An exception thrown while it is held releases it.
  using Held = std::unique_lock<std::mutex>;
  Held lock();
  void unlock(Held held, Outcome& outcome);
  void take_mail(Outcome& outcome);
  void collect(Outcome& outcome);
  void refuse(const OperationPtr& operation, Status why, Outcome& outcome);

  std::mutex mutex_;
  std::atomic<int> contenders_{0};
  std::atomic<bool> lingering_{false};
  Mailbox mailbox_;
  // Under the lock.
  std::vector<Mail> taken_;
  Transport& transport_;
  Engine engine_;
};

}  // namespace rocecoll
