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

struct SimQueue {
  static constexpr size_t kMarksNothing = SIZE_MAX;
  double bytes_per_second = 125e6;
  size_t buffer_bytes = 64 * 1024;
  size_t mark_above_bytes = kMarksNothing;
  size_t burst_bytes = 0;            // capacity of the token bucket; 0: a port, which has none
  double line_bytes_per_second = 0;  // rate at which a bucket's output leaves; 0: infinitely fast
};

// The port of a switch, or a shaper, that several senders share: one first-in first-out queue of a
// fixed size, emptied at a fixed rate, that drops what does not fit. It marks a datagram that finds
// more than `mark_above_bytes` in the queue (Congestion Experienced, RFC 3168), by the momentary
// length, as switches do for DCTCP (RFC 8257 section 3.1). As a token bucket (tbf(8)) it lets a
// burst pass at the line's rate after an idle time: the generic cell rate algorithm (ITU-T I.371,
// annex A).
class SimBottleneck {
 public:
  explicit SimBottleneck(const SimQueue& queue)
      : queue_(queue),
        burst_time_(FromSeconds(static_cast<double>(queue.burst_bytes) / queue.bytes_per_second)) {
    ROCECOLL_CHECK(queue.bytes_per_second > 0);
  }

  struct Passage {
    Instant left_at;  // when its last byte leaves
    bool marked;
  };
  // A datagram of `flow` arrives. Returns how it passes the queue, or nothing if it is dropped.
  // Calls come in the order of `now`.
  std::optional<Passage> admit(uint32_t flow, Instant now, size_t bytes) {
    const Instant start = std::max(free_at_, now);
    const double waiting_bytes =
        Seconds(std::max(start - burst_time_, now) - now) * queue_.bytes_per_second;
    if (waiting_bytes + static_cast<double>(bytes) > static_cast<double>(queue_.buffer_bytes)) {
      return std::nullopt;
    }
    free_at_ = start + FromSeconds(static_cast<double>(bytes) / queue_.bytes_per_second);
    flows_[flow] += bytes;
    passed_bytes_ += bytes;
    const bool marked = waiting_bytes > static_cast<double>(queue_.mark_above_bytes);
    return Passage{leave(std::max(free_at_ - burst_time_, now), bytes), marked};
  }
  // Takes effect at `now`, also for what is already waiting. Only for a port: a bucket keeps its
  // rate.
  void set_rate(Instant now, double bytes_per_second) {
    ROCECOLL_CHECK(bytes_per_second > 0 && queue_.burst_bytes == 0);
    const double queued_bytes = Seconds(std::max(free_at_, now) - now) * queue_.bytes_per_second;
    queue_.bytes_per_second = bytes_per_second;
    free_at_ = now + FromSeconds(queued_bytes / bytes_per_second);
  }
  uint64_t passed_bytes(uint32_t flow) { return flows_[flow]; }
  uint64_t passed_bytes() const { return passed_bytes_; }
  double bytes_per_second() const { return queue_.bytes_per_second; }

 private:
  // Passes a datagram over the line, once there are tokens for it.
  Instant leave(Instant released_at, size_t bytes) {
    if (queue_.line_bytes_per_second == 0) return released_at;
    const Duration time = FromSeconds(static_cast<double>(bytes) / queue_.line_bytes_per_second);
    line_free_at_ = std::max(line_free_at_, released_at) + time;
    return line_free_at_;
  }

  SimQueue queue_;
  const Duration burst_time_;  // the most time that the bucket's tokens can last
  Instant free_at_{};          // when the rate will have paid for everything admitted
  Instant line_free_at_{};
  uint64_t passed_bytes_ = 0;
  std::map<uint32_t, uint64_t> flows_;  // bytes that have passed, by flow
};

}  // namespace rocecoll
