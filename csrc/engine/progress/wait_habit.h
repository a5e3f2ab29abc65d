// SPDX-License-Identifier: Apache-2.0
// Whether a program waits for its messages at once. torch's send and recv do, but they arrive as
// isend and irecv, so the call itself does not tell. For a caller that does not wait, a thread has
// to be woken to see to the message meanwhile, which takes as long as the whole message.
#pragma once

#include <atomic>
#include <chrono>

#include "base/time.h"

namespace rocecoll {

// Of one group. Thread safe; where several threads send at once it may guess wrong, which costs no
// more than a thread that looks a little later.
class WaitHabit {
 public:
  // From the call to the wait. Python's own code in between takes this long when it is in no cache;
  // a program that computes for less loses little.
  static constexpr Duration kAtOnce = std::chrono::microseconds(200);
  // This many messages in a row are taken as a habit.
  static constexpr int kProof = 4;

  bool waits_at_once() const { return in_a_row_.load(std::memory_order_relaxed) >= kProof; }
  // `message` only tells one from another.
  void on_submit(const void* message) {
    if (last_.exchange(message, std::memory_order_relaxed) != nullptr) forget();
  }
  void on_wait(const void* message, Duration since_call) {
    if (last_.load(std::memory_order_relaxed) != message) return;
    last_.store(nullptr, std::memory_order_relaxed);
    if (since_call > kAtOnce) return forget();
    if (!waits_at_once()) in_a_row_.fetch_add(1, std::memory_order_relaxed);
  }

 private:
  void forget() { in_a_row_.store(0, std::memory_order_relaxed); }

  std::atomic<const void*> last_{nullptr};  // the last message, until somebody waits for it
  std::atomic<int> in_a_row_{0};
};

}  // namespace rocecoll
