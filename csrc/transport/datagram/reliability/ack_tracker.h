// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "base/range_set.h"
#include "base/time.h"
#include "transport/datagram/reliability/frame_wire.h"
#include "transport/datagram/reliability/way_back.h"

namespace rocecoll {

// Which packets arrived, and when to acknowledge them. The owner reports only packets that it has
// processed.
class AckTracker {
 public:
  // An acknowledgement costs both ends about 1 us; one per 48 KiB is a few percent of the cost of
  // moving these.
  static constexpr uint64_t kBytesPerAck = 48 * 1024;
  static constexpr uint32_t kPacketsPerAck = 16;
  // Holes beyond this many ranges or packets are forgotten. A packet that arrives there counts as a
  // duplicate; since it is not acknowledged, its content comes again in a new packet.
  static constexpr size_t kMaxRanges = 256;
  static constexpr uint64_t kMaxSpan = 1u << 20;

  explicit AckTracker(Duration max_ack_delay, uint32_t first_mark = 0)
      : max_ack_delay_(max_ack_delay), marked_packets_(first_mark) {}

  bool is_duplicate(uint64_t number) const { return number < floor_ || received_.contains(number); }
  // `arrived_at` may lie before acknowledgements that have been built since, if the process was
  // busy.
  void on_received(Instant arrived_at, uint64_t number, size_t bytes, bool eliciting,
                   bool at_once) {
    ROCECOLL_CHECK(!is_duplicate(number));
    // Out of order, a packet is late or missing; the peer should know (RFC 9000 section 13.2.1).
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
    if (at_once || !in_order) awaited_ = true;
    if (awaited_ || unacknowledged_packets_ >= kPacketsPerAck ||
        unacknowledged_bytes_ >= kBytesPerAck) {
      deadline_ = std::min(deadline_, arrived_at);
    }
  }

  // For each packet that asks for an acknowledgement, before on_received(): whether it was marked.
  // True if it is the first of a run of marks, which the sender should know at once (RFC 8257
  // section 3.2; RFC 9000 section 13.2.1). It learns soon enough of the further ones and of their
  // end.
  bool on_mark(bool marked) {
    const bool begins = marked && !latest_marked_;
    latest_marked_ = marked;
    if (marked) ++marked_packets_;
    return begins;
  }

  // The peer awaits no acknowledgement of packets below `number`: their holes can be forgotten.
  void on_settled(uint64_t number) { raise_floor(number); }

  // Something arrived that the peer wants acknowledged.
  bool pending() const { return unacknowledged_packets_ > 0; }
  bool due(Instant now) const { return pending() && now >= deadline_; }
  // The peer waits for the acknowledgement, or should change what it does when it gets it.
  bool awaited() const { return awaited_; }
  Instant deadline() const { return pending() ? deadline_ : kNever; }
  // Whether anything has arrived at all, so that an acknowledgement can be built.
  bool any() const { return !received_.empty(); }
  // Builds an acknowledgement of the newest ranges, at most `max_ranges`.
  void build(Instant now, size_t max_ranges, AckFrame& ack) const {
    ROCECOLL_CHECK(any());
    ROCECOLL_CHECK(max_ranges >= 1 && max_ranges <= kMaxAckRanges);
    const auto ranges = received_.ranges();
    ack.delay = now - largest_at_;
    ack.arrived_us = WireMicroseconds(largest_at_);
    ack.marked_packets = marked_packets_;
    ack.range_count = std::min(max_ranges, ranges.size());
    for (size_t i = 0; i < ack.range_count; ++i) ack.ranges[i] = ranges[ranges.size() - 1 - i];
  }
  void on_ack_sent() {
    unacknowledged_packets_ = 0;
    unacknowledged_bytes_ = 0;
    awaited_ = false;
    deadline_ = kNever;
  }

 private:
  void raise_floor(uint64_t floor) {
    if (floor <= floor_) return;
    received_.erase(0, floor);
    floor_ = floor;
  }

  Duration max_ack_delay_;
  uint32_t marked_packets_;
  bool latest_marked_ = false;
  RangeSet received_;
  uint64_t floor_ = 0;
  Instant largest_at_{};
  Instant deadline_ = kNever;
  uint64_t unacknowledged_bytes_ = 0;
  uint32_t unacknowledged_packets_ = 0;
  bool awaited_ = false;
};

}  // namespace rocecoll
