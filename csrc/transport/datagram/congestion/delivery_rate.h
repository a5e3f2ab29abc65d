// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

namespace rocecoll {

// What a path delivers, in bytes per second, from the averages of rounds. A host that is busy for a
// moment delivers less in that moment, so the rate is the maximum of several rounds (BBR: Cardwell
// et al., ACM Queue 2016). But a token bucket that rested lets more pass than its rate for as long
// as its burst lasts. It has no burst left where a queue stands: the maximum of such rounds is the
// bucket's rate.
class DeliveryRate {
 public:
  // ACM Queue 2016 has six to ten. A cycle of the congestion control is shorter, so that the rate
  // which a probe has found is still there at the next one.
  static constexpr size_t kRounds = 10;

  void take(double average) { rounds_.push(average); }
  // Takes a round whose packets have all found a queue. `rested`: the path was idle before, so that
  // other rounds may have measured a burst.
  void take_queued(double average, bool rested) {
    queued_rounds_.push(average);
    if (rested && queued_rounds_.count() >= kRounds) bound(queued_rounds_.most(kRounds));
  }
  // Bounds all earlier averages.
  void bound(double most) { rounds_.bound(most); }

  double most() const { return rounds_.most(kRounds); }
  double recent() const { return rounds_.most(kRecentRounds); }

 private:
  // Chosen with bottleneck_test.
  static constexpr size_t kRecentRounds = 3;
  class Rounds {
   public:
    void push(double average) { averages_[count_++ % kRounds] = average; }
    void bound(double most) {
      for (double& average : averages_) average = std::min(average, most);
    }
    size_t count() const { return count_; }
    // The maximum of the last `rounds`.
    double most(size_t rounds) const {
      double found = 0;
      for (size_t i = 1; i <= std::min(rounds, count_); ++i) {
        found = std::max(found, averages_[(count_ - i) % kRounds]);
      }
      return found;
    }

   private:
    std::array<double, kRounds> averages_{};
    size_t count_ = 0;  // of all rounds so far
  };

  Rounds rounds_;
  Rounds queued_rounds_;
};

}  // namespace rocecoll
