// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "base/time.h"

namespace rocecoll {

// A queue that stands although we drained our part of it is others', who fill it until it
// overflows: as TCP does, with a window that grows by a packet each round trip (RFC 5681 section
// 3.1).
class Contest {
 public:
  static constexpr double kKept = 0.7;  // CUBIC's beta (RFC 9438 section 4.6)

  // After each round without a contest: whether one begins. `queue`: how long each of its packets
  // waited at least. `drainable`: our share of what the path holds without it is more than the
  // least window, so that a queue of our making would be gone.
  bool begins(bool queued, Duration queue, bool drainable, bool lost, bool limited) {
    if (!queued) {
      stuck_ = stands_ = rounds_of_loss_ = 0;
      return false;
    }
    rounds_of_loss_ = lost ? kOverflows : rounds_of_loss_ - std::min(rounds_of_loss_, 1u);
    if (!limited) return false;
    ++stuck_;
    stands_ = drainable || queue >= kLongQueue ? stands_ + 1 : 0;
    if (stands_ < kStands && !(stuck_ >= kOverflows && rounds_of_loss_ > 0)) return false;
    stuck_ = stands_ = 0;
    return true;
  }
  void begin(double window_bytes) { window_ = window_bytes; }
  void cut() { window_ *= kKept; }
  void grow(double packet_bytes) { window_ += packet_bytes; }
  double window() const { return window_; }

 private:
  // Rounds in a row with a queue: of one that loses packets, within as many rounds, and of one that
  // does not. A few senders whose least windows are more than the path holds make one of these,
  // too, a short one, and none of them can drain it.
  static constexpr uint32_t kOverflows = 6;
  static constexpr uint32_t kStands = 30;
  static constexpr Duration kLongQueue = std::chrono::milliseconds(2);
  uint32_t stuck_ = 0;
  uint32_t stands_ = 0;
  uint32_t rounds_of_loss_ = 0;  // until a loss is forgotten
  double window_ = 0;
};

}  // namespace rocecoll
