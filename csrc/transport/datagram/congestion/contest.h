// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "transport/datagram/congestion/loss_response.h"

namespace rocecoll {

// Competes with senders that keep a queue. A queue that stands although this sender has drained its
// part of it belongs to others that fill it until it overflows. The contest then does what TCP
// does: the window grows by a packet each round trip (RFC 5681 section 3.1) and is cut once for
// each overflow.
//
// Rounds count for and against a contest, since even a queue that others keep runs empty now and
// then, when hosts at either end are busy for a moment. The numbers were chosen with
// bottleneck_test's BesideTcp: the shares of one and of eight senders beside one and eight TCP
// flows.
class Contest {
 public:
  // After each round outside a contest in which the window or the pacer held something back:
  // whether a contest begins. `drained`: only what our share of the path needs was in flight.
  // `beyond`: a queue, if the round met one, is more than senders of ours would have left.
  bool begins(bool drained, bool queued, bool beyond, bool lost) {
    if (drained) {
      const uint32_t sure = !queued ? 0 : beyond || window_ > 0 ? kStands : kOverflows;
      if (standing_ < sure) ++standing_;
      if (standing_ > sure) standing_ -= std::min(standing_ - sure, queued ? 1 : kGone);
      if (standing_ == 0) window_ = 0;
    }
    return standing_ >= kStands || (standing_ >= kOverflows && lost);
  }
  // Begins with what is in flight, or where the last contest stopped if the others' queue has been
  // there ever since.
  void begin(double window_bytes) {
    window_ = std::max(window_, window_bytes);
    rounds_ = empty_rounds_ = 0;
    since_cut_ = kLossesLast;
  }
  // After each round of a contest: whether it is over.
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
  // How many drained rounds have to meet a queue, less those that do not, before it counts as
  // others': kOverflows if it overflows, kStands if it does not, but is more than ours can be. (A
  // few senders whose least windows are more than the path holds make a queue, too: a short one,
  // which none of them can drain.) A lone sender on busy hosts sees its own queue in up to one
  // drained round of five.
  static constexpr uint32_t kOverflows = 6;
  static constexpr uint32_t kStands = 30;
  // What a drained round without a queue takes off the count: beside a busy TCP four drained rounds
  // of five meet a queue; where two to eight senders of ours take turns draining theirs, half or
  // more do.
  static constexpr uint32_t kGone = 2;
  // How many rounds have to meet a queue again before an abandoned contest goes on.
  static constexpr uint32_t kGoesOn = 3;
  // Rounds after a cut in which what was sent before it may still be lost.
  static constexpr uint32_t kLossesLast = 1;
  // Rounds in a row without a queue that end a contest. A late sender takes a part of the others'
  // queue for the path's, and sees no queue when they have just been cut.
  static constexpr uint32_t kEmptyRounds = 8;
  // The most rounds of a contest. It is then abandoned to see whether the others are still there.
  static constexpr uint32_t kMostRounds = 400;

  uint32_t standing_ = 0;
  uint32_t rounds_ = 0;               // of this contest
  uint32_t empty_rounds_ = 0;         // in a row
  uint32_t since_cut_ = kLossesLast;  // rounds
  double window_ = 0;                 // of this contest or the last; 0 once that is forgotten
};

}  // namespace rocecoll
