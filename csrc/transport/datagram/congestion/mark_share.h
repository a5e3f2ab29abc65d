// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

namespace rocecoll {

// The share of packets that find a queue which marks them (ECN), smoothed over rounds: DCTCP's
// alpha (RFC 8257 section 3.3). 0 until the first mark.
class MarkShare {
 public:
  void begin_round() { packets_ = marked_ = 0; }
  void on_acked() { ++packets_; }
  // `packets`: how many of those acknowledged were marked.
  void on_marked(uint64_t packets) { marked_ += packets; }
  // Whether there were marks in this round.
  bool any() const { return marked_ > 0; }
  void end_round() {
    if (packets_ == 0) return;
    const double share =
        std::min(1.0, static_cast<double>(marked_) / static_cast<double>(packets_));
    share_ += (share_ == 0 ? 1 : kWeight) * (share - share_);
  }
  double value() const { return share_; }
  // The factor by which a sender that reacts reduces what it does (RFC 8257 section 3.3).
  double kept() const { return 1 - share_ / 2; }

 private:
  static constexpr double kWeight = 1.0 / 16;  // RFC 8257 section 4.2
  uint64_t packets_ = 0;
  uint64_t marked_ = 0;
  double share_ = 0;
};

}  // namespace rocecoll
