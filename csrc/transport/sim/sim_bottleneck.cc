// SPDX-License-Identifier: Apache-2.0
#include "transport/sim/sim_bottleneck.h"

#include <algorithm>

#include "base/check.h"

namespace rocecoll {

SimBottleneck::SimBottleneck(double bytes_per_second, size_t buffer_bytes, size_t mark_above_bytes)
    : bytes_per_second_(bytes_per_second),
      buffer_bytes_(buffer_bytes),
      mark_above_bytes_(mark_above_bytes) {
  ROCECOLL_CHECK(bytes_per_second > 0);
}

std::optional<SimBottleneck::Passage> SimBottleneck::admit(uint32_t flow, Instant now,
                                                           size_t bytes) {
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

}  // namespace rocecoll
