// SPDX-License-Identifier: Apache-2.0
#include "transport/reliability/loss_detector.h"

#include "base/check.h"

namespace rocecoll {

void LossDetector::on_acknowledged(Instant now, uint64_t number, const SentPacket& packet,
                                   const RttEstimator& rtt) {
  ROCECOLL_CHECK(packet.sent_at <= now);
  ROCECOLL_CHECK(packet.state != SentPacket::State::kNotTracked);
  if (packet.state == SentPacket::State::kLost) on_spurious(now, rtt);
  acknowledged_end_ = std::max(acknowledged_end_, number + 1);
}

Duration LossDetector::reordering_window(const RttEstimator& rtt) const {
  const Duration step = std::max(rtt.min_rtt() / 4, kGranularity);
  // RFC 8985 caps it at one round trip; ours are so short that hosts reorder by several.
  return std::min<Duration>(step * widening_, std::max(4 * rtt.smoothed(), step));
}

// A packet called lost had only been late, which is what DSACK tells TCP (RFC 8985 section 6.2,
// step 4): from now on only time counts, and more of it for each round trip that shows this.
void LossDetector::on_spurious(Instant now, const RttEstimator& rtt) {
  reordering_seen_ = true;
  const bool new_round = now - last_widened_ >= rtt.smoothed();
  if (!new_round) return;
  if (now - last_widened_ >= rtt.smoothed() * kRoundsToNarrow) widening_ = 1;
  widening_ = std::min(widening_ + 1, kMaxWidening);
  last_widened_ = now;
}

}  // namespace rocecoll
