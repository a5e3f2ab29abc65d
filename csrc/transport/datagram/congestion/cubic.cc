// SPDX-License-Identifier: Apache-2.0
#include "transport/datagram/congestion/cubic.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "transport/datagram/congestion/loss_response.h"
#include "transport/datagram/congestion/pacer.h"

namespace rocecoll {
namespace {

constexpr double kScale = 0.4;        // C, in packets per second cubed; section 5.1
constexpr double kMarkKept = 0.85;    // RFC 8511 section 3.1
constexpr double kSlowStartGain = 2;  // of the pace over the window's rate, as in Linux
constexpr double kGain = 1.25;        // RFC 9002 section 7.7

}  // namespace

void CubicController::on_held_back(Instant now) {
  held_back_at_ = now;
  waited_ = !paced(now);
  if (!waited_) pacer().forgive();
}

SendStamp CubicController::take_sent(Instant now, uint64_t bytes) {
  // No time passes for the window while there is nothing to send (RFC 9438 section 5.8).
  if (bytes_in_flight() == bytes) {
    if (grows_since_ != kNever) grows_since_ += now - active_at_;
    active_at_ = now;
  }
  pacer().on_sent(now, bytes, std::exchange(waited_, false));
  return {};
}

void CubicController::take_acked(uint64_t bytes, Instant sent_at, const SendStamp& /*stamp*/) {
  acked_ += bytes;
  newest_at_ = std::max(newest_at_, sent_at);
}

void CubicController::take_lost(Instant now, uint64_t bytes, Instant sent_at) {
  lost_ += bytes;
  cut(now, sent_at, kLossKept);
}

void CubicController::restart(Instant now) {
  reset_window();
  window_bytes_ = static_cast<double>(window());
  threshold_ = static_cast<double>(max_window());
  most_ = before_cut_ = reno_ = 0;
  grows_since_ = kNever;
  cut_at_ = now;
  acked_ = lost_ = 0;
  marked_ = false;
}

void CubicController::take_timing(Instant /*now*/, const Timing& timing) {
  const Duration sample = timing.network + timing.back + timing.host;
  round_trip_ = round_trip_ == Duration{0} ? sample : (7 * round_trip_ + sample) / 8;
}

void CubicController::end_acknowledgement(Instant now, Instant /*arrived_at*/,
                                          const std::optional<Timing>& timing) {
  if (timing) take_timing(now, *timing);
  const Instant newest_at = std::exchange(newest_at_, Instant{});
  if (std::exchange(marked_, false)) cut(now, newest_at, kMarkKept);
  // A window that was not used up says nothing of the path (RFC 9002 section 7.8).
  const bool limited = held_back_at_ >= newest_at;
  if (limited) {
    grow(now);
  } else if (grows_since_ != kNever) {
    grows_since_ += now - active_at_;
  }
  breaker().on_round(now, acked_, lost_, limited ? now - active_at_ : Duration{0});
  acked_ = lost_ = 0;
  active_at_ = now;
  if (round_trip_ == Duration{0}) return;
  const double rate =
      (in_slow_start() ? kSlowStartGain : kGain) * window_bytes_ / Seconds(round_trip_);
  const auto burst = static_cast<uint64_t>(burst_bytes(rate, 1));
  set_pace(now, rate, burst, Pacer::kOffloadMessage);
  set_window(window_bytes_);
}

void CubicController::cut(Instant now, Instant sent_at, double kept) {
  if (sent_at < cut_at_) return;
  cut_at_ = now;
  before_cut_ = std::max(window_bytes_, least_window());
  // Fast convergence (RFC 9438 section 4.7): who lost below his last most makes room.
  most_ = before_cut_ < most_ ? before_cut_ * (1 + kept) / 2 : before_cut_;
  window_bytes_ = std::max(before_cut_ * kept, least_window());
  threshold_ = reno_ = window_bytes_;
  grows_since_ = kNever;
  set_window(window_bytes_);
}

double CubicController::cubic_window(double seconds) const {
  const auto packet_bytes = static_cast<double>(packet());
  const double until_most = std::cbrt((most_ - threshold_) / packet_bytes / kScale);  // K
  return kScale * std::pow(seconds - until_most, 3) * packet_bytes + most_;
}

void CubicController::grow(Instant now) {
  const auto acked = static_cast<double>(acked_);
  const auto most = static_cast<double>(max_window());
  window_bytes_ = std::max(window_bytes_, least_window());
  if (in_slow_start()) {
    window_bytes_ = std::min(window_bytes_ + acked, most);
    return;
  }
  if (grows_since_ == kNever) grows_since_ = now;
  const double target = std::clamp(cubic_window(Seconds(now - grows_since_ + round_trip_)),
                                   window_bytes_, 1.5 * window_bytes_);
  // Section 4.3; alpha is 1 once the window is what it was before the cut.
  const double alpha = reno_ < before_cut_ ? 3 * (1 - kLossKept) / (1 + kLossKept) : 1;
  reno_ += alpha * static_cast<double>(packet()) * acked / window_bytes_;
  window_bytes_ += (target - window_bytes_) * acked / window_bytes_;
  window_bytes_ = std::min(std::max(window_bytes_, reno_), most);
}

}  // namespace rocecoll
