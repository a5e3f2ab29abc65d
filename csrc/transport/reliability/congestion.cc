// SPDX-License-Identifier: Apache-2.0
#include "transport/reliability/congestion.h"

#include <algorithm>

#include "base/check.h"

namespace rocecoll {
namespace {

// The loss share is over about the last 1-2 MiB, and starts as if 256 KiB had passed without loss,
// so that the first lost packet of a short transfer is not read as a high rate.
constexpr uint64_t kLossHistoryBytes = 2 * 1024 * 1024;
constexpr uint64_t kLossPriorBytes = 256 * 1024;

}  // namespace

CongestionController::CongestionController(uint64_t max_window_bytes, bool steered)
    : max_window_(max_window_bytes),
      steered_(steered),
      window_(steered ? std::min(kInitialWindow, max_window_bytes) : max_window_bytes),
      recent_total_(kLossPriorBytes) {
  ROCECOLL_CHECK(max_window_bytes > 0);
}

void CongestionController::on_sent(uint64_t bytes) {
  ROCECOLL_CHECK(bytes > 0);
  in_flight_ += bytes;
  largest_packet_ = std::max(largest_packet_, bytes);
}

void CongestionController::on_acked(Instant now, uint64_t bytes, Instant sent_at,
                                    const RttEstimator& rtt) {
  ROCECOLL_CHECK(now >= sent_at);
  const bool window_was_used = in_flight_ * 2 >= window_;
  leave_flight(bytes);
  if (!steered_) return;
  if (!delay_rose(rtt)) {
    // An idle sender's short queue proves nothing: grow only a window that is used.
    if (window_was_used) {
      window_ = std::min(max_window_, window_ + kIncreasePerRtt * bytes / window_ + 1);
    }
    return;
  }
  if (sent_at < last_cut_) return;
  const double delay = Microseconds(rtt.network());
  const double target = Microseconds(rtt.min_rtt() + kTargetQueueing);
  cut(now, kDelayGain * (delay - target) / delay, kSingleSignalFloor);
}

void CongestionController::on_lost(Instant now, uint64_t bytes, Instant sent_at,
                                   const RttEstimator& rtt) {
  ROCECOLL_CHECK(now >= sent_at);
  leave_flight(bytes);
  if (!steered_) return;
  recent_lost_ += bytes;
  if (delay_rose(rtt)) {
    if (sent_at < last_joint_cut_) return;
    // Delay alone may have cut in this round trip already: both count from the window before that.
    if (sent_at < last_cut_) window_ = window_before_cut_;
    cut(now, kMaxCut, 0);
    last_joint_cut_ = now;
  } else if (sent_at >= last_cut_ && loss_share() > kTolerableLoss) {
    cut(now, loss_share(), kSingleSignalFloor);
  }
}

void CongestionController::on_discarded(uint64_t bytes) {
  ROCECOLL_CHECK(bytes <= in_flight_);
  in_flight_ -= bytes;
}

void CongestionController::leave_flight(uint64_t bytes) {
  ROCECOLL_CHECK(bytes <= in_flight_);
  in_flight_ -= bytes;
  recent_total_ += bytes;
  if (recent_total_ >= kLossHistoryBytes) {
    recent_total_ /= 2;
    recent_lost_ /= 2;
  }
}

void CongestionController::cut(Instant now, double factor, uint64_t floor) {
  ROCECOLL_CHECK(factor >= 0);
  const auto kept =
      static_cast<uint64_t>(static_cast<double>(window_) * (1 - std::min(factor, kMaxCut)));
  const uint64_t lowest = std::max(floor, 2 * largest_packet_);
  window_before_cut_ = window_;
  // A window that is below the floor already, by both signals, is not lifted by one of them.
  window_ = std::min(window_, std::max(kept, lowest));
  last_cut_ = now;
}

double CongestionController::loss_share() const {
  return static_cast<double>(recent_lost_) / static_cast<double>(recent_total_);
}

bool CongestionController::delay_rose(const RttEstimator& rtt) const {
  return rtt.has_sample() && rtt.network() > rtt.min_rtt() + kTargetQueueing;
}

}  // namespace rocecoll
