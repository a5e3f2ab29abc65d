// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

#include "transport/datagram/congestion/loss_response.h"

namespace rocecoll {

// Two bounds of the flight, both learned from the most that was in flight in each round.
//
// - tried(): a sender that has sent less than the path holds knows the path's rate, but not how
//   long it lasts: it may be that of a token bucket whose burst just passed. The window follows
//   from what the sender has tried (RFC 7661).
// - held(): what a path and its queue hold together, as losses tell: inflight_longterm of
//   draft-ietf-ccwg-bbr-06 section 2.9.2. A sender that waits for a late peer, or makes up for its
//   own lateness, has more in flight than the model says that the path holds, and a small queue
//   does not take that.
class FlightBound {
 public:
  // Infinite until the first round has ended.
  double tried() const { return tried_ > 0 ? tried_ : kInfinite; }
  // Infinite until the first overflow.
  double held() const { return held_; }
  void on_sent(uint64_t bytes_in_flight) {
    most_ = std::max(most_, static_cast<double>(bytes_in_flight));
  }
  // The most in flight in this round and the one before.
  double most() const { return std::max(most_, most_before_); }
  // After each round: whether a queue overflowed in it. What made it overflow was sent in that
  // round or in the one before, and its losses show for some more rounds.
  void end_round(bool overflow, uint64_t packet_bytes) {
    const auto packet = static_cast<double>(packet_bytes);
    if (overflow && rounds_ >= kLossShows) {
      held_ = std::max(std::min(held_, most()) * kLossKept, kLeastPackets * packet);
      rounds_ = 0;
    } else if (!overflow && most() > kReached * held_) {
      // A round that reaches the bound raises it by a thirty-second, so that what a cut took is
      // back after eleven rounds. Where the path holds few packets it takes longer: many senders on
      // a short path would lose too much otherwise.
      held_ += std::max(packet / 2, held_ / 32);
    }
    ++rounds_;
    most_before_ = most_;
    keep_tried();
  }
  // Forgets what overflowed. After a round whose losses tell nothing of a queue, in place of
  // end_round().
  void forget_held() {
    held_ = kInfinite;
    rounds_ = kLossShows;
    most_before_ = 0;
    keep_tried();
  }

 private:
  static constexpr double kInfinite = std::numeric_limits<double>::infinity();
  // The share of the bound that counts as reaching it (shaper_test).
  static constexpr double kReached = 0.9;
  static constexpr double kLeastPackets = 4;

  void keep_tried() { tried_ = std::max(tried_, std::exchange(most_, 0.0)); }

  double held_ = kInfinite;
  double tried_ = 0;
  double most_ = 0;  // in flight, in this round
  double most_before_ = 0;
  uint32_t rounds_ = kLossShows;  // since held_ was cut
};

}  // namespace rocecoll
