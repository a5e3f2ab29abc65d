// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <chrono>
#include <cstdint>
#include <string>

#include "base/time.h"

namespace rocecoll {

// Which of many like events people are told of, so that what comes and goes all day does not fill
// their log: the 1st, 2nd, 4th, 8th and so on, and one after ten minutes without a word.
class Tally {
 public:
  static constexpr Duration kLongestSilence = std::chrono::minutes(10);

  // Counts an event. True: tell of it.
  bool count(Instant now) {
    ++count_;
    told_ = std::has_single_bit(count_) || now - told_at_ >= kLongestSilence;
    if (told_) told_at_ = now;
    return told_;
  }
  // Of the last event: its end is worth a word, too.
  bool told() const { return told_; }
  // How many, where there was more than one: " (8 times so far)".
  std::string text() const {
    return count_ < 2 ? "" : " (" + std::to_string(count_) + " times so far)";
  }

 private:
  uint64_t count_ = 0;
  Instant told_at_{};
  bool told_ = false;
};

}  // namespace rocecoll
