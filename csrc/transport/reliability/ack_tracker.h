// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/range_set.h"
#include "base/time.h"
#include "transport/reliability/frame_wire.h"

namespace rocecoll {

// Which packets arrived, and when to say so. Only packets that were processed are told to it.
class AckTracker {
 public:
  // An acknowledgement costs both ends about 1 us; one per 48 KiB is a few percent of moving them.
  static constexpr uint64_t kBytesPerAck = 48 * 1024;
  static constexpr uint32_t kPacketsPerAck = 16;
  // Holes older than this many ranges or packets are forgotten: what arrives there is taken for a
  // duplicate and comes again in a new packet, since it is not acknowledged.
  static constexpr size_t kMaxRanges = 256;
  static constexpr uint64_t kMaxSpan = 1u << 20;

  explicit AckTracker(Duration max_ack_delay, uint32_t first_mark = 0)
      : max_ack_delay_(max_ack_delay), marked_packets_(first_mark) {}

  bool is_duplicate(uint64_t number) const { return number < floor_ || received_.contains(number); }
  // `arrived_at` may lie before what has been built in the meantime: the process was busy.
  void on_received(Instant arrived_at, uint64_t number, size_t bytes, bool eliciting, bool at_once);

  // Whether a packet that asks for an acknowledgement, before on_received(), was marked. True if
  // marks begin with it: the sender should know (RFC 8257 section 3.2; RFC 9000, 13.2.1), while of
  // every further one, and of their end, it learns soon enough.
  bool on_mark(bool marked);

  // The peer awaits no acknowledgement of packets below `number`: their holes need no more room.
  void on_settled(uint64_t number) { raise_floor(number); }

  // Something arrived that the peer wants acknowledged.
  bool pending() const { return unacknowledged_packets_ > 0; }
  bool due(Instant now) const { return pending() && now >= deadline_; }
  Instant deadline() const { return pending() ? deadline_ : kNever; }
  // Whether anything arrived at all, so that an acknowledgement can be built.
  bool any() const { return !received_.empty(); }
  // The newest ranges, at most `max_ranges`.
  void build(Instant now, size_t max_ranges, AckFrame& ack) const;
  void on_ack_sent();

 private:
  void raise_floor(uint64_t floor);

  Duration max_ack_delay_;
  uint32_t marked_packets_;
  bool latest_marked_ = false;
  RangeSet received_;
  uint64_t floor_ = 0;
  Instant largest_at_{};
  Instant deadline_ = kNever;
  uint64_t unacknowledged_bytes_ = 0;
  uint32_t unacknowledged_packets_ = 0;
};

}  // namespace rocecoll
