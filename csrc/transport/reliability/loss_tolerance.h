// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/check.h"

namespace rocecoll {

// Which loss says that a queue overflowed. A bad cable or a noisy link loses a steady share however
// little is sent; the share that is seen while no queue stands is called noise, up to a limit, and
// forgiven. What is lost beyond noise and a small allowance is congestion.
//
// Counted packet by packet as an account that acknowledged packets fill and lost ones empty. So the
// verdicts come in proportion to what a sender lost, which is what makes senders of one bottleneck
// equal: the larger one gets them more often.
class LossTolerance {
 public:
  // Of loss that is nobody's fault: BBRv3 tolerates 2 % in a round
  // (draft-ietf-ccwg-bbr-03, BBR.LossThresh).
  static constexpr double kAllowance = 0.005;
  static constexpr double kMaxNoise = 0.06;
  // Lost packets that one account covers: the first few of a short transfer prove nothing.
  static constexpr double kAccountPackets = 2;
  // Packets until the noise is known.
  static constexpr double kNoisePackets = 256;

  void on_acked() {
    account_ = std::min(limit(), account_ + kAllowance + 1.25 * noise_);
    ++acked_;
  }
  // True: congestion. The account starts anew.
  bool on_lost() {
    ++lost_;
    account_ -= 1;
    if (account_ >= 0) return false;
    account_ = limit() / 2;
    return true;
  }
  // It was only late.
  void on_found() { account_ = std::min(limit(), account_ + 1); }
  // A round trip is over; `queued` if a queue stood during it.
  void on_round(bool queued) {
    const double total = static_cast<double>(acked_ + lost_);
    if (total == 0) return;
    const double share = static_cast<double>(lost_) / total;
    acked_ = lost_ = 0;
    if (!queued) {
      double weight = std::min(1.0, total / kNoisePackets);
      if (share < noise_) weight /= 4;
      noise_ = std::min(kMaxNoise, noise_ + weight * (share - noise_));
    }
  }
  // Lost of the packets of this round.
  double share() const {
    return lost_ == 0 ? 0 : static_cast<double>(lost_) / static_cast<double>(acked_ + lost_);
  }
  double noise() const { return noise_; }

 private:
  double limit() const { return kAccountPackets + 100 * noise_; }

  double account_ = kAccountPackets;
  double noise_ = 0;
  uint64_t acked_ = 0;  // in this round
  uint64_t lost_ = 0;
};

}  // namespace rocecoll
