// SPDX-License-Identifier: Apache-2.0
// Operations submitted while another thread held the progress lock. Thread safe, bounded, in order.
#pragma once

#include <cstddef>
#include <mutex>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "engine/operation.h"

namespace rocecoll {

struct Mail {
  GroupId group = 0;
  OperationPtr operation;
};

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
  // Swaps what is there into `into`, which must be empty.
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

}  // namespace rocecoll
