// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

namespace rocecoll {

// The most that was in flight before this round. Who has sent less than the path holds knows its
// rate, but not for how long it lasts, as of a token bucket whose burst passed: so much was tried,
// and the window follows from that (RFC 7661).
class ProvenFlight {
 public:
  // Infinite until the first round.
  double bytes() const { return largest_ > 0 ? largest_ : std::numeric_limits<double>::infinity(); }
  void on_sent(uint64_t bytes_in_flight) {
    most_ = std::max(most_, static_cast<double>(bytes_in_flight));
  }
  void on_round() { largest_ = std::max(largest_, std::exchange(most_, 0.0)); }

 private:
  double most_ = 0;  // in flight, in this round
  double largest_ = 0;
};

}  // namespace rocecoll
