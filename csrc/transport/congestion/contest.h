// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "base/time.h"
#include "transport/congestion/loss_response.h"

namespace rocecoll {

// A queue that stands although we drained our part of it is others', who fill it until it
// overflows: as TCP does, with a window that grows by a packet each round trip (RFC 5681 section
// 3.1), and is cut once for each overflow.
class Contest {
 public:
  // After each round without a contest: whether one begins. `queue`: how long each of its packets
  // waited at least. `drainable`: our share of what the path holds without it is more than the
  // least window, so that a queue of our making would be gone.
  bool begins(bool queued, Duration queue, bool drainable, bool lost, bool limited) {
    if (since_end_ < kRemembered) ++since_end_;
    if (!queued) {
      stuck_ = stands_ = rounds_of_loss_ = 0;
      return false;
    }
    rounds_of_loss_ = lost ? kOverflows : rounds_of_loss_ - std::min(rounds_of_loss_, 1u);
    if (!limited) return false;
    ++stuck_;
    stands_ = drainable || queue >= kLongQueue ? stands_ + 1 : 0;
    const uint32_t stands = remembered() ? kOverflows : kStands;
    if (stands_ < stands && !(stuck_ >= kOverflows && rounds_of_loss_ > 0)) return false;
    stuck_ = stands_ = 0;
    return true;
  }
  // With what is in flight, or with what the last one left if it was lately.
  void begin(double window_bytes) {
    window_ = remembered() ? std::max(window_bytes, window_ * kLossKept) : window_bytes;
    rounds_ = empty_rounds_ = 0;
    since_cut_ = kLossesLast;
  }
  // After each round of one: whether it is over.
  bool ends(bool queued, bool lost, double packet_bytes) {
    empty_rounds_ = queued ? 0 : empty_rounds_ + 1;
    if (empty_rounds_ >= kEmptyRounds || ++rounds_ >= kMostRounds) {
      since_end_ = 0;
      return true;
    }
    if (++since_cut_ <= kLossesLast) return false;
    if (lost) {
      window_ *= kLossKept;
      since_cut_ = 0;
    } else {
      window_ += packet_bytes;
    }
    return false;
  }
  double window() const { return window_; }

 private:
  // Rounds in a row with a queue: of one that loses packets, within as many rounds, and of one that
  // does not. A few senders whose least windows are more than the path holds make one of these,
  // too, a short one, and none of them can drain it.
  static constexpr uint32_t kOverflows = 6;
  static constexpr uint32_t kStands = 30;
  static constexpr Duration kLongQueue = std::chrono::milliseconds(2);
  // What was sent before a cut is lost in the round after it, too.
  static constexpr uint32_t kLossesLast = 1;
  // Who joins late takes part of the others' queue for the path's, and sees none when they have
  // just been cut.
  static constexpr uint32_t kEmptyRounds = 8;
  // Then it is given up, to see whether the others are still there. If they are, as many rounds
  // later at most, it goes on.
  static constexpr uint32_t kMostRounds = 400;
  static constexpr uint32_t kRemembered = 64;

  bool remembered() const { return since_end_ < kRemembered; }

  uint32_t stuck_ = 0;
  uint32_t stands_ = 0;
  uint32_t rounds_of_loss_ = 0;       // until a loss is forgotten
  uint32_t since_end_ = kRemembered;  // rounds since the last one
  uint32_t rounds_ = 0;               // of this one
  uint32_t empty_rounds_ = 0;         // in a row
  uint32_t since_cut_ = kLossesLast;  // rounds
  double window_ = 0;
};

}  // namespace rocecoll
