// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "transport/datagram/congestion/loss_response.h"

namespace rocecoll {

// A queue that stands although we drained our part of it is others', who fill it until it
// overflows: as TCP does, with a window that grows by a packet each round trip (RFC 5681 section
// 3.1), and is cut once for each overflow. Rounds are counted for and against, as hosts that are
// busy for a moment, theirs or ours, let even a queue that others keep run empty now and then.
class Contest {
 public:
  // After each round without a contest in which the window or the pacer held something back:
  // whether one begins. `drained`: only what our share needs of the path was in flight. `beyond`:
  // if the round met a queue, senders of ours would not have left it.
  bool begins(bool drained, bool queued, bool beyond, bool lost) {
    if (drained) {
      const uint32_t sure = !queued ? 0 : beyond || window_ > 0 ? kStands : kOverflows;
      if (standing_ < sure) ++standing_;
      if (standing_ > sure) standing_ -= std::min(standing_ - sure, queued ? 1 : kGone);
      if (standing_ == 0) window_ = 0;
    }
    return standing_ >= kStands || (standing_ >= kOverflows && lost);
  }
  // With what is in flight, or where the last one stopped if the others' queue has been there
  // since.
  void begin(double window_bytes) {
    window_ = std::max(window_, window_bytes);
    rounds_ = empty_rounds_ = 0;
    since_cut_ = kLossesLast;
  }
  // After each round of one: whether it is over.
  bool ends(bool queued, bool lost, double packet_bytes) {
    empty_rounds_ = queued ? 0 : empty_rounds_ + 1;
    if (empty_rounds_ >= kEmptyRounds || ++rounds_ >= kMostRounds) {
      standing_ = kStands - kGoesOn;
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
  // Drained rounds that still met a queue, less those that did not: before one that overflows is
  // others', and one that does not, but is more than ours can be. A few senders whose least windows
  // are more than the path holds make one of these, too, a short one, and none of them can drain
  // it. One that is alone sees its own queue in up to one drained round of five, where hosts are
  // busy.
  static constexpr uint32_t kOverflows = 6;
  static constexpr uint32_t kStands = 30;
  // For each without: beside a busy TCP four drained rounds of five meet a queue, and where two to
  // eight senders of ours drain theirs by turns, half of them or more.
  static constexpr uint32_t kGone = 2;
  // And before it goes on.
  static constexpr uint32_t kGoesOn = 3;
  // What was sent before a cut is lost in the round after it, too.
  static constexpr uint32_t kLossesLast = 1;
  // Who joins late takes part of the others' queue for the path's, and sees none when they have
  // just been cut.
  static constexpr uint32_t kEmptyRounds = 8;
  // Then it is given up, to see whether the others are still there.
  static constexpr uint32_t kMostRounds = 400;

  uint32_t standing_ = 0;
  uint32_t rounds_ = 0;               // of this one
  uint32_t empty_rounds_ = 0;         // in a row
  uint32_t since_cut_ = kLossesLast;  // rounds
  double window_ = 0;                 // of this one or of the last; 0 once that is forgotten
};

}  // namespace rocecoll
