// SPDX-License-Identifier: Apache-2.0
#include "transport/congestion/cubic.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "transport/congestion/catch_up.h"

namespace rocecoll {
namespace {

constexpr double kKept = 0.7;         // beta, RFC 9438 section 4.6
constexpr double kScale = 0.4;        // C, in packets per second cubed; section 5.1
constexpr double kMarkKept = 0.85;    // RFC 8511 section 3.1
constexpr double kSlowStartGain = 2;  // of the pace, as Linux has it: twice the window's rate,
constexpr double kGain = 1.25;        // and RFC 9002 section 7.7
constexpr double kLeastPackets = 2;   // RFC 9002 section 7.2

}  // namespace

void CubicController::on_held_back(Instant now) {
  held_back_at_ = now;
  waited_ = !paced(now);
  if (!waited_) pacer().forgive();
}

uint64_t CubicController::take_sent(Instant now, uint64_t bytes) {
  pacer().on_sent(now, bytes, std::exchange(waited_, false));
  return 0;
}

void CubicController::take_acked(uint64_t bytes, Instant sent_at, uint64_t /*delivered_before*/) {
  acked_ += bytes;
  newest_at_ = std::max(newest_at_, sent_at);
}

void CubicController::take_lost(Instant now, uint64_t bytes, Instant sent_at) {
  lost_ += bytes;
  cut(now, sent_at, kKept);
}

void CubicController::restart(Instant /*now*/) {
  reset_window();
  window_bytes_ = static_cast<double>(window());
  threshold_ = static_cast<double>(kMaxWindow);
  most_ = reno_ = 0;
  grows_since_ = kNever;
}

void CubicController::take_timing(Instant now, const Timing& timing) {
  const Duration sample = timing.network + timing.host;
  round_trip_ = round_trip_taken_at_ == Instant{} ? sample : (7 * round_trip_ + sample) / 8;
  round_trip_taken_at_ = now;
}

void CubicController::end_acknowledgement(Instant now, Instant /*arrived_at*/,
                                          const std::optional<Timing>& timing) {
  if (timing) take_timing(now, *timing);
  if (std::exchange(marked_, false)) cut(now, newest_at_, kMarkKept);
  // What was not held back says nothing of the path (RFC 9002 section 7.8), and no time passes then
  // (RFC 9438 section 5.8).
  const bool limited = held_back_at_ >= newest_at_;
  if (limited) {
    grow(now);
  } else if (grows_since_ != kNever) {
    grows_since_ += now - acknowledged_at_;
  }
  const Duration since = acknowledged_at_ == Instant{} ? Duration{0} : now - acknowledged_at_;
  breaker().on_round(now, acked_, lost_, limited ? since : Duration{0});
  acked_ = lost_ = 0;
  acknowledged_at_ = now;
  if (round_trip_ == Duration{0}) return;
  window_bytes_ = std::max(window_bytes_, kLeastPackets * static_cast<double>(packet()));
  const double rate =
      (in_slow_start() ? kSlowStartGain : kGain) * window_bytes_ / Seconds(round_trip_);
  const auto burst = static_cast<uint64_t>(burst_bytes(rate, 1));
  set_pace(now, rate, burst, CatchUp::kLeast);
  set_window(window_bytes_);
}

void CubicController::cut(Instant now, Instant sent_at, double kept) {
  if (sent_at < cut_at_) return;
  cut_at_ = now;
  // Fast convergence (RFC 9438 section 4.7): who lost below his last most makes room.
  most_ = window_bytes_ < most_ ? window_bytes_ * (1 + kept) / 2 : window_bytes_;
  window_bytes_ *= kept;
  threshold_ = reno_ = window_bytes_;
  grows_since_ = kNever;
  set_window(std::max(window_bytes_, kLeastPackets * static_cast<double>(packet())));
}

double CubicController::cubic_window(double seconds) const {
  const auto packet_bytes = static_cast<double>(packet());
  const double until_most = std::cbrt((most_ - threshold_) / packet_bytes / kScale);  // K
  return kScale * std::pow(seconds - until_most, 3) * packet_bytes + most_;
}

void CubicController::grow(Instant now) {
  const auto acked = static_cast<double>(acked_);
  if (in_slow_start()) {
    window_bytes_ = std::min(window_bytes_ + acked, static_cast<double>(kMaxWindow));
    return;
  }
  if (grows_since_ == kNever) grows_since_ = now;
  const double target = std::clamp(cubic_window(Seconds(now - grows_since_ + round_trip_)),
                                   window_bytes_, 1.5 * window_bytes_);
  const auto packet_bytes = static_cast<double>(packet());
  const double as_reno = reno_ < most_ ? 3 * (1 - kKept) / (1 + kKept) : 1;  // alpha, section 4.3
  reno_ += as_reno * packet_bytes * acked / window_bytes_;
  window_bytes_ += (target - window_bytes_) * acked / window_bytes_;
  window_bytes_ = std::min(std::max(window_bytes_, reno_), static_cast<double>(kMaxWindow));
}

}  // namespace rocecoll
