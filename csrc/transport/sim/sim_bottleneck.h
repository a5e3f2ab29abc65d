// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

#include "base/time.h"

namespace rocecoll {

// The port of a switch, or a shaper, that several senders share: one first-in first-out queue of a
// fixed size, emptied at a fixed rate, that drops what does not fit. May mark instead from a depth
// on (RFC 3168; with a low threshold as DCTCP wants it).
class SimBottleneck {
 public:
  struct Counts {
    uint64_t passed_bytes = 0;
    uint64_t passed = 0;
    uint64_t dropped = 0;
    uint64_t marked = 0;
  };
  struct Passage {
    Instant left_at;  // when the last byte has left the queue
    bool marked = false;
  };

  SimBottleneck(double bytes_per_second, size_t buffer_bytes, size_t mark_from_bytes = SIZE_MAX);

  // A datagram of `flow` arrives; nothing if it is dropped. Calls come in the order of `now`.
  std::optional<Passage> admit(uint32_t flow, Instant now, size_t bytes);
  const Counts& counts(uint32_t flow) { return counts_[flow]; }
  const Counts& total() const { return total_; }
  double bytes_per_second() const { return bytes_per_second_; }

 private:
  const double bytes_per_second_;
  const size_t buffer_bytes_;
  const size_t mark_from_bytes_;
  Instant free_at_{};
  Counts total_;
  std::map<uint32_t, Counts> counts_;
};

}  // namespace rocecoll
