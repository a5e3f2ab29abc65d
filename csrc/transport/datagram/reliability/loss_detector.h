// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "base/check.h"
#include "base/time.h"
#include "transport/datagram/reliability/rtt_estimator.h"
#include "transport/datagram/reliability/sent_packets.h"

namespace rocecoll {

// Decides from acknowledgements which packets are lost (RACK, RFC 8985): those sent long enough
// before a packet that was acknowledged. As long as the network has never reordered, three
// acknowledged later packets are enough (RFC 9002 section 6.1.1).
class LossDetector {
 public:
  static constexpr uint64_t kPacketThreshold = 3;
  // The timers of a sleeping process are not finer than this.
  static constexpr Duration kGranularity = std::chrono::microseconds(50);
  static constexpr uint32_t kMaxWidening = 64;
  // Recoveries without a wrong verdict until the reordering window narrows again (RFC 8985 section
  // 6.2, step 4). Counting round trips instead would narrow it between the rare reorderings of,
  // say, a host whose processes move from core to core.
  static constexpr uint32_t kRecoveriesToNarrow = 16;

  // `number`, in flight or declared lost before, was acknowledged. Call for each newly acknowledged
  // packet, in any order, then call detect().
  void on_acknowledged(Instant now, uint64_t number, const SentPacket& packet,
                       const RttEstimator& rtt) {
    ROCECOLL_CHECK(packet.sent_at <= now);
    ROCECOLL_CHECK(packet.state != SentPacket::State::kNotTracked);
    if (packet.state == SentPacket::State::kLost) on_spurious(now, rtt);
    acknowledged_end_ = std::max(acknowledged_end_, number + 1);
  }
  // Marks lost packets and calls `on_lost(number, packet)` for each.
  template <typename OnLost>
  void detect(Instant now, const RttEstimator& rtt, SentPackets& sent, OnLost on_lost);
  // When detect() may find more losses even without a further acknowledgement.
  Instant deadline() const { return deadline_; }
  bool reordering_seen() const { return reordering_seen_; }
  Duration reordering_window(const RttEstimator& rtt) const {
    const Duration step = std::max(rtt.min_rtt() / 4, kGranularity);
    // RFC 8985 caps it at one round trip. Ours are so short that hosts reorder by several.
    return std::min<Duration>(step * widening_, std::max(4 * rtt.smoothed(), step));
  }

 private:
  // A packet declared lost was only late; TCP learns this from DSACK (RFC 8985 section 6.2, step
  // 4). From now on only time counts, and more of it for each round trip in which this happens.
  void on_spurious(Instant now, const RttEstimator& rtt) {
    reordering_seen_ = true;
    const bool new_round = now - last_widened_ >= rtt.smoothed();
    if (!new_round) return;
    widening_ = std::min(widening_ + 1, kMaxWidening);
    last_widened_ = now;
    recoveries_ = 0;
  }
  // All losses of a round trip are one recovery.
  void on_verdict(Instant now, const RttEstimator& rtt) {
    if (now - last_recovery_ < rtt.smoothed()) return;
    last_recovery_ = now;
    if (++recoveries_ <= kRecoveriesToNarrow) return;
    widening_ = 1;
    recoveries_ = 0;
  }
  Duration loss_delay(const RttEstimator& rtt) const {
    return std::max(rtt.smoothed(), rtt.latest()) + reordering_window(rtt);
  }

  uint64_t acknowledged_end_ = 0;  // one past the largest acknowledged number
  bool reordering_seen_ = false;
  uint32_t widening_ = 1;
  Instant last_widened_{};
  uint32_t recoveries_ = 0;  // since it was widened
  Instant last_recovery_{};
  Instant deadline_ = kNever;
};

template <typename OnLost>
void LossDetector::detect(Instant now, const RttEstimator& rtt, SentPackets& sent, OnLost on_lost) {
  deadline_ = kNever;
  const Duration delay = loss_delay(rtt);
  // Send times increase with the numbers, so that the lost packets are a prefix of those in flight.
  for (;;) {
    const uint64_t number = sent.oldest_in_flight();
    if (number >= acknowledged_end_) return;
    const Instant lost_at = sent[number].sent_at + delay;
    const bool overtaken = !reordering_seen_ && number + kPacketThreshold < acknowledged_end_;
    if (lost_at > now && !overtaken) {
      deadline_ = lost_at;
      return;
    }
    on_verdict(now, rtt);
    sent.mark_lost(number);
    on_lost(number, sent[number]);
  }
}

}  // namespace rocecoll
