// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "transport/datagram/congestion/loss_response.h"
#include "transport/datagram/congestion/round_meter.h"

namespace rocecoll {

// The share of loss that no queue causes, learned from what is lost while no queue fills. More loss
// than that is an overflow. A policer (a token bucket that drops what its tokens do not pay for)
// has no queue, and a very short queue hardly shows; what they drop looks like random loss until
// less is sent. So now and then some rounds go slower, and what they lose bounds the share
// (cycle.h).
//
// Where no source is named, the numbers were chosen with bottleneck_test's FiveInHundredLost,
// shaper_test and policer_test.
class RandomLoss {
 public:
  static constexpr double kTolerable = 0.02;  // BBR.LossThresh, draft-ietf-ccwg-bbr-06 section 2.8

  double share() const { return share_; }
  bool overflowed(const Round& round) const {
    return round.losses >= kLeastLosses && round.lost_share() > kTolerable + kScale * share_;
  }
  // An overflow that is no accident of a round with few packets: its losses are more than this many
  // standard deviations above the usual ones.
  bool surely_overflowed(const Round& round, double deviations) const {
    return overflowed(round) && above_usual(round, deviations);
  }
  // More loss than usual, however little: a sender that competes for a queue has to react to it.
  bool lost_more(const Round& round) const { return round.losses > 0 && above_usual(round, 0); }
  // After each round: whether any packet of it met a queue.
  void count_round(bool met_queue) { empty_rounds_ = met_queue ? 0 : empty_rounds_ + 1; }
  // Learns from a round, unless it may still show what a probe, `rounds_since_probe` ago, or a
  // momentary queue has lost.
  void learn(const Round& round, uint32_t rounds_since_probe, uint64_t packet_bytes) {
    const uint64_t total = round.acked + round.lost;
    if (std::min(empty_rounds_, rounds_since_probe) < kLossShows || total == 0) return;
    const double packets = static_cast<double>(total) / static_cast<double>(packet_bytes);
    double weight = std::min(1.0, packets / kPackets);
    const double share = round.lost_share();
    if (share < share_) weight /= 4;
    share_ = std::min(most_, share_ + weight * (share - share_));
  }
  // Whether the share is large enough that slower rounds should verify it.
  bool doubtful() const { return share_ >= kDoubtful; }
  // Learns from a round that shows only what was sent well below the rate of the path.
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
  // Requires a round with losses.
  bool above_usual(const Round& round, double deviations) const {
    const double usual = round.losses / round.lost_share() * share_;
    return round.losses > usual + deviations * std::sqrt(usual);
  }

  // An overflow loses more than this much of the usual share, beyond kTolerable.
  static constexpr double kScale = 1.5;
  static constexpr double kMost = 0.25;        // of the loss may count as random
  static constexpr double kPackets = 256;      // that the share is learned from
  static constexpr uint32_t kLeastLosses = 3;  // that prove anything
  static constexpr double kDoubtful = 0.01;
  // The packets of slower rounds that are judged together. Where 5 % are lost they lose six on
  // average, and hardly ever fewer than half of that: kScatter.
  static constexpr uint64_t kSlowerPackets = 128;
  static constexpr double kScatter = 2;
  double share_ = 0;
  double most_ = kMost;        // that the share may be
  uint64_t slower_acked_ = 0;  // bytes, since most_ was last set
  uint64_t slower_lost_ = 0;
  uint32_t empty_rounds_ = 0;  // since a packet met a queue
};

}  // namespace rocecoll
