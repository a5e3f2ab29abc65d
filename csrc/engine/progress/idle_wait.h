// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/time.h"

namespace rocecoll {

// What a driver does while nothing is due: it spins, then yields, then sleeps. It spins only as
// long as that pays (competitive spinning: Karlin et al., SODA 1990): where the scheduler has put
// two ranks on one core, as it does beside other programs for minutes, nothing can come while one
// spins, and every wait would last for all of it. The length of a yield tells: if another process
// ran for a short turn and what was waited for came, that process was the peer. Then yielding comes
// first, until yields return at once, or take a time slice: a process that computes on this core
// must not get a slice of ours in advance.
//
// Yields that let others run do not count as waiting: where ranks share a core, each of these turns
// may be the one that brings the message, and a sleep costs both ends a wake-up.
//
// Yields that let no other process run cost nothing but power, and a wake-up takes longer than a
// whole small operation. So a *patient* driver goes on with them for as long as ranks that compute
// are usually apart, but only while that pays: waits in a row that all outlast it end its patience,
// until as many end sooner, asleep or not.
//
// Instants are those at which the driver's steps began.
class IdleWait {
 public:
  enum class Move : uint8_t { kSpin, kYield, kSleep };
  // A yield that took less let no other process run.
  static constexpr Duration kLeastTurn = std::chrono::microseconds(5);
  // A yield that took more let a program run that computes: slices are 3 ms and longer.
  static constexpr Duration kMostTurn = std::chrono::milliseconds(1);
  // Yielding ends then, whatever it brings: a driver that waits for a rank that is minutes late has
  // to sleep.
  static constexpr Duration kLongestYielding = std::chrono::milliseconds(1);
  // Of a patient driver. Ranks that compute for 20 ms a step and differ by a fifth are 8 ms apart.
  static constexpr Duration kLongestPatience = std::chrono::milliseconds(10);
  // This many waits in a row that say the same are believed.
  static constexpr int kProof = 4;

  IdleWait(Duration spin_time, Duration yield_time, bool patient)
      : spin_time_(spin_time), yield_time_(yield_time), patient_(patient) {}

  // The driver is another one, or has done something else meanwhile.
  void begin() { idle_ = false; }

  // The step at `now` moved nothing. What to do before the next one.
  Move idle(Instant now) {
    const Duration turn = idle_ && last_ == Move::kYield ? now - last_at_ : Duration{0};
    if (idle_ && last_ == Move::kSleep) return last_;
    if (!idle_) {
      since_ = now;
      in_vain_ = Duration{0};
    }
    idle_ = true;
    last_at_ = now;
    if (turn > kMostTurn) believe(false);
    if (turn < kLeastTurn) in_vain_ += turn;
    const Duration waited = now - since_;
    const Duration spin = core_is_shared_ ? Duration{0} : spin_time_;
    if (waited < spin) {
      last_ = Move::kSpin;
    } else if (turn > kMostTurn || in_vain_ >= longest_in_vain() ||
               waited - in_vain_ >= spin + kLongestYielding) {
      last_ = Move::kSleep;
    } else {
      last_ = Move::kYield;
    }
    return last_;
  }

  // The step at `now` moved something.
  void moved(Instant now) {
    if (!idle_) return;
    idle_ = false;
    learn_patience(now - since_);
    if (last_ == Move::kSpin) learn(false);
    if (last_ != Move::kYield) return;
    const Duration turn = now - last_at_;
    if (turn > kMostTurn) {
      believe(false);
    } else if (turn >= kLeastTurn || core_is_shared_) {
      learn(turn >= kLeastTurn);
    }
  }

  bool core_is_shared() const { return core_is_shared_; }

 private:
  Duration longest_in_vain() const {
    return patient_ && outlasted_ < kProof ? kLongestPatience : yield_time_;
  }
  // A wait that spinning alone would have ended says nothing of those that need patience.
  void learn_patience(Duration waited) {
    if (waited <= spin_time_ + yield_time_) return;
    outlasted_ = std::clamp(outlasted_ + (waited < kLongestPatience ? -1 : 1), 0, 2 * kProof - 1);
  }
  void believe(bool shared) {
    core_is_shared_ = shared;
    contradictions_ = 0;
  }
  void learn(bool shared) {
    if (shared == core_is_shared_) {
      contradictions_ = 0;
    } else if (++contradictions_ == kProof) {
      believe(shared);
    }
  }

  const Duration spin_time_;
  const Duration yield_time_;
  const bool patient_;
  bool idle_ = false;
  Instant since_{};  // the step that moved nothing first
  Instant last_at_{};
  Duration in_vain_{0};  // in yields that let no other process run
  Move last_ = Move::kSpin;
  bool core_is_shared_ = false;  // with the peer that is waited for
  int contradictions_ = 0;       // waits in a row that say the opposite
  int outlasted_ = 0;            // long waits that outlasted patience, less those that did not
};

}  // namespace rocecoll
