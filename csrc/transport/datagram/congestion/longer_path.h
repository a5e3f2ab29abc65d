// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "base/time.h"

namespace rocecoll {

// Tells a path that has become longer from a queue. The round trips of such a path stay the same to
// the hundredth, while a queue that others fill grows and shrinks, and one of ours is drained. A
// full queue stays the same, too, but loses packets; a queue made of many least windows is short.
//
// The numbers were chosen with the LongerPath tests of model_parts_test and with
// changing_path_test.
class LongerPath {
 public:
  // After each round that lost nothing. `queue`: the length of the queue that the round seemed to
  // meet. True once the path must have become longer.
  bool on_round(Instant now, Duration queue, Duration least_rtt) {
    const Duration shortest = std::min(shortest_, least_rtt);
    const Duration longest = std::max(longest_, least_rtt);
    if (queue < kLeast || longest - shortest > std::max(kJitter, least_rtt / kParts)) {
      begin(least_rtt);
      return false;
    }
    shortest_ = shortest;
    longest_ = longest;
    if (++rounds_ < kRounds || now < not_before_) return false;
    rounds_ = 0;
    not_before_ = now + kBetween;
    return true;
  }
  void on_loss() { begin(Duration::max()); }

 private:
  void begin(Duration least_rtt) {
    rounds_ = 0;
    shortest_ = longest_ = least_rtt;
  }

  // The shortest queue that may be a longer path, and the rounds that it has to stay the same for.
  static constexpr Duration kLeast = std::chrono::milliseconds(5);
  static constexpr uint32_t kRounds = 30;
  // By how much round trips that stay the same may differ: this long, or this part of them.
  static constexpr Duration kJitter = std::chrono::microseconds(50);
  static constexpr int kParts = 128;
  // Bounds how often a verdict in error makes a sender start up into others' queue.
  static constexpr Duration kBetween = std::chrono::seconds(5);

  uint32_t rounds_ = 0;
  Duration shortest_{};
  Duration longest_{};
  Instant not_before_{};
};

}  // namespace rocecoll
