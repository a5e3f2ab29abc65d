// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "transport/datagram/congestion/loss_response.h"
#include "transport/datagram/congestion/round_meter.h"

namespace rocecoll {

// The share of loss that is nobody's fault, from what is lost while nothing fills a queue; more is
// an overflow. A policer has no queue (a token bucket that drops what its tokens do not pay for),
// nor hardly a short one, and what they drop looks the same, until less is sent: by and by some
// rounds go slower, and what they lose bounds the share.
class RandomLoss {
 public:
  static constexpr double kTolerable = 0.02;  // as BBRv3

  double share() const { return share_; }
  bool overflowed(const Round& round) const {
    return round.losses >= kLeastLosses && round.lost_share() > kTolerable + kScale * share_;
  }
  // An overflow that is no accident of a round with few packets: beyond so many standard
  // deviations of what usually gets lost.
  bool surely_overflowed(const Round& round, double deviations) const {
    return overflowed(round) && above_usual(round, deviations);
  }
  // Any more than usual, as one who competes for a queue must take it.
  bool lost_more(const Round& round) const { return round.losses > 0 && above_usual(round, 0); }
  // After each round: whether any packet of it met a queue.
  void count_round(bool met_queue) { empty_rounds_ = met_queue ? 0 : empty_rounds_ + 1; }
  // What a probe has lost, so many rounds ago, or a queue that was there for a moment, shows for a
  // round trip or two after it.
  void learn(const Round& round, uint32_t rounds_since_probe, uint64_t packet_bytes) {
    const uint64_t total = round.acked + round.lost;
    if (std::min(empty_rounds_, rounds_since_probe) < kLossShows || total == 0) return;
    const double packets = static_cast<double>(total) / static_cast<double>(packet_bytes);
    double weight = std::min(1.0, packets / kPackets);
    const double share = round.lost_share();
    if (share < share_) weight /= 4;
    share_ = std::min(most_, share_ + weight * (share - share_));
  }
  // Enough that slower rounds should tell what it is worth.
  bool doubtful() const { return share_ >= kDoubtful; }
  // Of a round that shows only what was sent well below the rate of the path.
  void learn_slower(const Round& round, uint64_t packet_bytes) {
    slower_acked_ += round.acked;
    slower_lost_ += round.lost;
    const uint64_t total = slower_acked_ + slower_lost_;
    if (total < kSlowerPackets * packet_bytes) return;
    const double share = static_cast<double>(slower_lost_) / static_cast<double>(total);
    most_ = std::min(kMost, kScatter * share + kDoubtful);
    share_ = std::min(share_, most_);
    slower_acked_ = slower_lost_ = 0;
  }

 private:
  // Of a round with losses.
  bool above_usual(const Round& round, double deviations) const {
    const double usual = round.losses / round.lost_share() * share_;
    return round.losses > usual + deviations * std::sqrt(usual);
  }

  static constexpr double kScale = 1.5;
  static constexpr double kMost = 0.25;
  static constexpr double kPackets = 256;      // until it is known
  static constexpr uint32_t kLeastLosses = 3;  // that prove anything
  static constexpr double kDoubtful = 0.01;
  // Together these lose 6 of 5 % on average, and hardly ever less than half of that.
  static constexpr uint64_t kSlowerPackets = 128;
  static constexpr double kScatter = 2;
  double share_ = 0;
  double most_ = kMost;        // that it may be
  uint64_t slower_acked_ = 0;  // bytes, since that was found
  uint64_t slower_lost_ = 0;
  uint32_t empty_rounds_ = 0;  // since a packet met a queue
};

}  // namespace rocecoll
