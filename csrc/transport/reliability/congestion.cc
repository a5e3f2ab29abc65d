// SPDX-License-Identifier: Apache-2.0
#include "transport/reliability/congestion.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace rocecoll {
namespace {

constexpr double kSlowStartGrowth = 0.5;  // a round trip
// Queueing below this is not told from the hosts' own noise.
constexpr Duration kMaxTarget = std::chrono::microseconds(100);
constexpr Duration kMinTarget = std::chrono::microseconds(10);
constexpr double kMostDrain = 0.7;
constexpr double kTargetScale = 1.5;
// A queue that stands after so many cuts is others'.
constexpr uint32_t kMostDrains = 4;
constexpr uint32_t kContestRounds = 200;  // until it is tried again
// Growth a round trip for each packet acknowledged since the last cut.
constexpr double kGrowthPerPacket = 4.4e-5;
constexpr double kMaxGrowth = 0.06;
// Growth a round trip in packets: this times the root of the window in packets. Less than in
// proportion, so that the smaller of two senders gains on the larger.
constexpr double kGrowthRoot = 0.5;
constexpr uint32_t kQuietRounds = 16;  // without a queue, until it looks for more in larger steps
// Without a cut, until the queue is supposed to hold more than was seen.
constexpr double kForgetPackets = 10'000;
constexpr double kLossKept = 0.8;
constexpr double kContestedLossKept = 0.7;  // CUBIC's beta (RFC 9438 section 4.6)
constexpr double kMostCut = 0.5;
constexpr double kLeastPackets = 1.0 / 16;
constexpr uint32_t kEarlySamples = 4;  // that end slow start within a round (HyStart++, RFC 9406)
constexpr double kSlowStartPacing = 2;
constexpr double kPacing = 1.25;
constexpr Duration kBurstTime = std::chrono::microseconds(100);
constexpr double kMaxBurstBytes = 64 * 1024;  // a message of segmentation offload
constexpr double kBurstPackets = 2;
// A round trip this many times the latest one is not that of the path any more.
constexpr int kMostOfLatest = 64;

}  // namespace

CongestionController::CongestionController(uint64_t max_window_bytes, bool steered)
    : max_window_(static_cast<double>(max_window_bytes)),
      steered_(steered),
      window_(steered ? std::min<double>(kInitialWindow, max_window_) : max_window_),
      target_(kMaxTarget) {
  ROCECOLL_CHECK(max_window_bytes > 0);
}

void CongestionController::on_sent(Instant now, uint64_t bytes) {
  ROCECOLL_CHECK(bytes > 0);
  in_flight_ += bytes;
  if (!steered_) return;
  if (static_cast<double>(bytes) > packet_) {
    packet_ = static_cast<double>(bytes);
    if (base_rtt_ == kNoSample) set_window(std::max(window_, packet_ * kInitialPackets));
  }
  pacer_.on_sent(now, bytes);
}

void CongestionController::on_rtt_sample(Instant now, const RttEstimator& rtt) {
  if (!steered_) return;
  if (base_rtt_ == kNoSample) round_.began = now;
  base_rtt_ = std::min(base_rtt_, rtt.latest());
  round_.least_rtt = std::min(round_.least_rtt, rtt.latest());
  round_.most_rtt = std::max(round_.most_rtt, rtt.latest());
  ++round_.samples;
}

void CongestionController::on_acked(Instant now, uint64_t bytes, Instant sent_at,
                                    const RttEstimator& rtt) {
  ROCECOLL_CHECK(now >= sent_at);
  const bool used = in_flight_ * 2 >= window();
  leave_flight(bytes);
  if (!steered_ || base_rtt_ == kNoSample) return;
  round_.window_used = round_.window_used || used;
  tolerance_.on_acked();
  packets_since_cut_ += 1;
  if (slow_start_ && used) {
    set_window(window_ + static_cast<double>(bytes) * kSlowStartGrowth);
    if (round_.samples >= kEarlySamples && queueing(round_.least_rtt) > tolerated()) {
      leave_slow_start();
    }
  }
  if (sent_at >= round_.began) end_round(now);
  pace(rtt);
}

void CongestionController::on_lost(Instant now, uint64_t bytes, Instant sent_at,
                                   const RttEstimator& rtt) {
  ROCECOLL_CHECK(now >= sent_at);
  leave_flight(bytes);
  if (!steered_) return;
  const bool congestion =
      tolerance_.on_lost() || (contested_ && tolerance_.noise() < LossTolerance::kAllowance);
  if (!congestion || sent_at < last_cut_) return;
  on_congestion_loss(now);
  pace(rtt);
}

void CongestionController::on_discarded(uint64_t bytes) { leave_flight(bytes); }

void CongestionController::leave_flight(uint64_t bytes) {
  ROCECOLL_CHECK(bytes <= in_flight_);
  in_flight_ -= bytes;
}

void CongestionController::end_round(Instant now) {
  const bool used = round_.window_used;
  const Duration before = queue_;
  if (round_.samples > 0) {
    queue_ = queueing(round_.least_rtt);
    most_queue_ = queueing(round_.most_rtt);
  }
  round_ = Round{now};
  const bool queued = queue_ > tolerated();
  tolerance_.on_round(std::max(before, queue_) > std::max<Duration>(kMinTarget, base_rtt_ / 8));
  if (!queued) {
    contested_ = draining_ = false;
    drains_ = 0;
    if (used && !slow_start_) grow();
    if (packets_since_cut_ > kForgetPackets) {
      depth_ += depth_ / 2;
      target_ = std::clamp<Duration>(depth_ / 3, target_, kMaxTarget);
      packets_since_cut_ = kForgetPackets / 10;
    }
    return;
  }
  if (slow_start_) return leave_slow_start();
  if (!used) return;
  if (contested_) {
    compete();
  } else {
    drain(queue_);
  }
}

// Down to what fills the path without the queue, and a little more, so that it all but empties and
// its round trip is seen again. All senders do so at about the same time, as they see the same
// queue.
void CongestionController::drain(Duration queue) {
  if (draining_) {  // the last cut shows only now
    draining_ = false;
    return;
  }
  if (++drains_ > kMostDrains) {
    contested_ = true;
    contested_rounds_ = drains_ = 0;
    return;
  }
  draining_ = true;
  quiet_rounds_ = 0;
  const Duration left = std::min(base_rtt_ / 2, target_ / 4);
  const double kept = Seconds(base_rtt_ + left) / Seconds(base_rtt_ + queue);
  set_window(window_ * std::max(kept, 1 - kMostDrain));
}

// More for a small window, so that of two senders the smaller one keeps growing for longer.
Duration CongestionController::tolerated() const {
  const double scale = 1 + kTargetScale / std::sqrt(packets());
  const Duration scaled(static_cast<int64_t>(static_cast<double>(target_.count()) * scale));
  return depth_ == Duration{0} ? scaled : std::min(scaled, std::max(depth_ * 2 / 3, kMinTarget));
}

void CongestionController::compete() {
  if (++contested_rounds_ >= kContestRounds) {
    contested_ = false;
    return;
  }
  set_window(window_ + packet_);
}

void CongestionController::grow() {
  const double careful = window_ * std::min(kMaxGrowth, kGrowthPerPacket * packets_since_cut_);
  const double ordinary = kGrowthRoot * packet_ * std::sqrt(packets());
  const bool searching = ++quiet_rounds_ >= kQuietRounds;
  set_window(window_ + (blind_      ? std::min(careful, searching ? careful : ordinary)
                        : searching ? std::max(ordinary, careful)
                                    : ordinary));
}

// What was in flight without the queue.
void CongestionController::leave_slow_start() {
  slow_start_ = false;
  draining_ = true;
  set_window(window_ * (1 - kMostDrain));
}

void CongestionController::on_congestion_loss(Instant now) {
  if (contested_) return cut(now, kContestedLossKept);
  // The queue that the bottleneck can hold, if it can be seen: half of it will do.
  const Duration seen = std::max(most_queue_, queueing(round_.most_rtt));
  blind_ = seen < 2 * kMinTarget;
  if (!blind_) learn_depth(seen);
  if (slow_start_ && !blind_)
    leave_slow_start();
  else
    cut(now, std::min(kLossKept, 1 - tolerance_.share()));
  slow_start_ = false;
  last_cut_ = now;
}

// How deep the queue is that overflowed. What one loss saw may be little of it.
void CongestionController::learn_depth(Duration seen) {
  depth_ = seen >= depth_ || depth_ == Duration{0} ? seen : depth_ - (depth_ - seen) / 8;
  target_ = std::clamp<Duration>(depth_ / 3, kMinTarget, kMaxTarget);
}

void CongestionController::cut(Instant now, double kept) {
  set_window(window_ * std::max(kept, 1 - kMostCut));
  last_cut_ = now;
  packets_since_cut_ = 0;
  quiet_rounds_ = 0;
}

void CongestionController::set_window(double bytes) {
  window_ = std::clamp(bytes, std::min(kLeastPackets * packet_, max_window_), max_window_);
}

void CongestionController::pace(const RttEstimator& rtt) {
  // The smoothed round trip remembers a pause of the peer for dozens of them.
  const Duration round_trip = std::min(rtt.smoothed(), kMostOfLatest * rtt.latest());
  const double rate = (slow_start_ ? kSlowStartPacing : kPacing) * window_ / Seconds(round_trip);
  const double burst = std::clamp(std::min(rate * Seconds(kBurstTime), window_ / 4),
                                  kBurstPackets * packet_, kMaxBurstBytes);
  pacer_.set_rate(rate, static_cast<uint64_t>(burst));
}

}  // namespace rocecoll
