// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

#include "base/check.h"
#include "base/time.h"

namespace rocecoll {

// The port of a switch, or a shaper, that several senders share: one first-in first-out queue of a
// fixed size, emptied at a fixed rate, that drops what does not fit. It marks what finds more than
// so much in the queue (Congestion Experienced, RFC 3168), by the momentary length, as switches do
// for DCTCP (RFC 8257 section 3.1).
class SimBottleneck {
 public:
  static constexpr size_t kMarksNothing = SIZE_MAX;
  SimBottleneck(double bytes_per_second, size_t buffer_bytes,
                size_t mark_above_bytes = kMarksNothing)
      : bytes_per_second_(bytes_per_second),
        buffer_bytes_(buffer_bytes),
        mark_above_bytes_(mark_above_bytes) {
    ROCECOLL_CHECK(bytes_per_second > 0);
  }

  struct Passage {
    Instant left_at;  // its last byte
    bool marked;
  };
  // A datagram of `flow` arrives: how it passes the queue, or nothing if it is dropped. Calls come
  // in the order of `now`.
  std::optional<Passage> admit(uint32_t flow, Instant now, size_t bytes) {
    const Instant start = std::max(free_at_, now);
    const double waiting_bytes = Seconds(start - now) * bytes_per_second_;
    if (waiting_bytes + static_cast<double>(bytes) > static_cast<double>(buffer_bytes_)) {
      return std::nullopt;
    }
    free_at_ = start + FromSeconds(static_cast<double>(bytes) / bytes_per_second_);
    flows_[flow] += bytes;
    passed_bytes_ += bytes;
    return Passage{free_at_, waiting_bytes > static_cast<double>(mark_above_bytes_)};
  }
  uint64_t passed_bytes(uint32_t flow) { return flows_[flow]; }
  uint64_t passed_bytes() const { return passed_bytes_; }
  double bytes_per_second() const { return bytes_per_second_; }

 private:
  const double bytes_per_second_;
  const size_t buffer_bytes_;
  const size_t mark_above_bytes_;
  Instant free_at_{};
  uint64_t passed_bytes_ = 0;
  std::map<uint32_t, uint64_t> flows_;  // bytes that have passed
};

}  // namespace rocecoll
