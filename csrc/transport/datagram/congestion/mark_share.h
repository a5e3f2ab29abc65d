// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

namespace rocecoll {

// How much of what goes over a path finds a queue that marks it (ECN), smoothed over rounds:
// DCTCP's alpha (RFC 8257 section 3.3). 0 where nothing ever was.
class MarkShare {
 public:
  void begin_round() { packets_ = marked_ = 0; }
  void on_acked() { ++packets_; }
  // So many of those acknowledged.
  void on_marked(uint64_t packets) { marked_ += packets; }
  // In this round.
  bool any() const { return marked_ > 0; }
  void end_round() {
    if (packets_ == 0) return;
    const double share =
        std::min(1.0, static_cast<double>(marked_) / static_cast<double>(packets_));
    share_ += (share_ == 0 ? 1 : kWeight) * (share - share_);
  }
  double value() const { return share_; }
  // What a sender keeps of what it does, once for each time that it reacts.
  double kept() const { return 1 - share_ / 2; }

 private:
  static constexpr double kWeight = 1.0 / 16;  // RFC 8257 section 4.2
  uint64_t packets_ = 0;
  uint64_t marked_ = 0;
  double share_ = 0;
};

}  // namespace rocecoll
