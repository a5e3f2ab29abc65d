// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <chrono>
#include <cstdint>
#include <string>

#include "base/time.h"

namespace rocecoll {

// Decides which of many similar events are reported, so that what comes and goes all day does not
// fill the log: the 1st, 2nd, 4th, 8th and so on, and any that follows ten minutes without a
// report.
class Tally {
 public:
  static constexpr Duration kLongestSilence = std::chrono::minutes(10);

  // Counts an event. True if it should be reported.
  bool count(Instant now) {
    ++count_;
    told_ = std::has_single_bit(count_) || now - told_at_ >= kLongestSilence;
    if (told_) told_at_ = now;
    return told_;
  }
  // Whether the last event was reported, so that its end should be, too.
  bool told() const { return told_; }
  // The number of events if there was more than one, e.g. " (8 times so far)".
  std::string text() const {
    return count_ < 2 ? "" : " (" + std::to_string(count_) + " times so far)";
  }

 private:
  uint64_t count_ = 0;
  Instant told_at_{};
  bool told_ = false;
};

}  // namespace rocecoll
