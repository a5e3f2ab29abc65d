// SPDX-License-Identifier: Apache-2.0
#include "transport/reliability/ack_tracker.h"

#include <algorithm>

#include "base/check.h"

namespace rocecoll {

void AckTracker::on_received(Instant arrived_at, uint64_t number, size_t bytes, bool eliciting,
                             bool at_once) {
  ROCECOLL_CHECK(!is_duplicate(number));
  // Out of order: a packet is late or missing, which the peer should know (RFC 9000, 13.2.1).
  const bool in_order = received_.empty() || number == received_.back().end;
  if (received_.empty() || number >= received_.back().end) largest_at_ = arrived_at;
  received_.insert(number, number + 1);
  if (received_.ranges().size() > kMaxRanges) raise_floor(received_.front().end);
  if (received_.back().end > kMaxSpan) raise_floor(received_.back().end - kMaxSpan);
  ROCECOLL_CHECK(received_.ranges().size() <= kMaxRanges);
  if (!eliciting) return;
  if (!pending()) deadline_ = arrived_at + max_ack_delay_;
  ++unacknowledged_packets_;
  unacknowledged_bytes_ += bytes;
  if (at_once || !in_order || unacknowledged_packets_ >= kPacketsPerAck ||
      unacknowledged_bytes_ >= kBytesPerAck) {
    deadline_ = std::min(deadline_, arrived_at);
  }
}

bool AckTracker::on_mark(bool marked) {
  const bool begins = marked && !latest_marked_;
  latest_marked_ = marked;
  if (marked) ++marked_packets_;
  return begins;
}

void AckTracker::raise_floor(uint64_t floor) {
  if (floor <= floor_) return;
  received_.erase(0, floor);
  floor_ = floor;
}

void AckTracker::build(Instant now, size_t max_ranges, AckFrame& ack) const {
  ROCECOLL_CHECK(any());
  ROCECOLL_CHECK(max_ranges >= 1 && max_ranges <= kMaxAckRanges);
  const auto ranges = received_.ranges();
  ack.delay = now - largest_at_;
  ack.marked_packets = marked_packets_;
  ack.range_count = std::min(max_ranges, ranges.size());
  for (size_t i = 0; i < ack.range_count; ++i) ack.ranges[i] = ranges[ranges.size() - 1 - i];
}

void AckTracker::on_ack_sent() {
  unacknowledged_packets_ = 0;
  unacknowledged_bytes_ = 0;
  deadline_ = kNever;
}

}  // namespace rocecoll
