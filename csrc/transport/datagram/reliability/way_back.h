// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "base/check.h"
#include "base/time.h"

namespace rocecoll {

// A host's clock on the wire: microseconds, modulo 2^32.
inline uint32_t WireMicroseconds(Instant at) {
  using std::chrono::microseconds;
  return static_cast<uint32_t>(
      std::chrono::duration_cast<microseconds>(at.time_since_epoch()).count());
}

// How much of a round trip is a queue on the way back, where acknowledgements wait behind the
// peer's own data. No window of ours fills that queue, and none should shrink for it. If both ends
// send as much as their paths carry, as in most collectives, it is half of what a round trip grows
// by.
//
// This is computed from the one-way delay to the peer, by two clocks (RFC 6817 section 2.1) whose
// difference is unknown. Each sample bounds the difference: of what the round trip is above its
// minimum, the way there took between nothing and everything. So a drifting clock is followed
// whenever a round trip is short; as long as none is, a queue counts as one on the way there.
class WayBack {
 public:
  // `beyond_least`: by how much the network's part of this round trip exceeds the minimum.
  // `sent_us`, `arrived_us`: of its packet, by WireMicroseconds() of our clock and of the peer's.
  Duration queue(Duration beyond_least, uint32_t sent_us, uint32_t arrived_us) {
    ROCECOLL_CHECK(beyond_least >= Duration{0});
    const uint32_t clocks_us = arrived_us - sent_us;
    if (!known_) {
      origin_us_ = clocks_us;
      empty_ = -beyond_least;
      known_ = true;
    }
    const Duration there = std::chrono::microseconds(static_cast<int32_t>(clocks_us - origin_us_));
    empty_ = std::clamp(empty_, there - beyond_least, there);
    return beyond_least - (there - empty_);
  }

 private:
  bool known_ = false;
  uint32_t origin_us_ = 0;  // the first one-way delay, by the two clocks
  Duration empty_{};        // the delay without a queue, relative to the origin
};

}  // namespace rocecoll
