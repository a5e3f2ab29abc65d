// SPDX-License-Identifier: Apache-2.0
#include "transport/datagram/congestion/round_trips.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "transport/datagram/congestion/pacer.h"

namespace rocecoll {
namespace {

// The shortest queue beyond jitter and own bursts, and the most jitter that is believed
// (bottleneck_test; model_test: LateTimersAreNoQueue).
constexpr Duration kLeastQueue = std::chrono::microseconds(25);
constexpr Duration kMostJitter = std::chrono::microseconds(200);

}  // namespace

void RoundTrips::take(Instant now, const CongestionController::Timing& timing) {
  if (!known()) network_ = timing.network;
  // Nearly the base counts as the base, so that a path that is often empty needs no look.
  if (!known() || timing.network <= base_ + base_ / 8) base_seen_at_ = now;
  base_ = std::min(base_, timing.network);
  const Duration step = timing.network - std::exchange(latest_, timing.network);
  shuffle_ = timing.reorders ? shuffle_ + ((step < Duration{0} ? -step : step) - shuffle_) / 8
                             : Duration{0};
  looked_ = std::min(looked_, timing.network);
  network_ += (timing.network - network_) / 8;
  back_ += (timing.back - back_) / 8;
  host_delay_ += (timing.host - host_delay_) / 8;
}

void RoundTrips::take_busy_time(Duration round_trip, Duration own) {
  const Duration peer = round_trip - network_ - CongestionController::kMostIntended;
  const Duration busy = std::max(peer, Duration{0}) + std::min(own, Pacer::kMostLate);
  busy_time_ = std::max(busy, busy_time_ + (busy - busy_time_) / 64);
}

void RoundTrips::take_calm_round() {
  jitter_ += (std::min(network_ - base_, kMostJitter) - jitter_) / 8;
}

// A queue does not reorder. Where each way takes up to some time longer at random, two round trips
// differ by nearly half of that time on average, and the average round trip is longer by twice that
// difference (shaper_test: Jitter).
bool RoundTrips::is_queue(Duration rtt, Duration own) const {
  const Duration allowed = own + kLeastQueue + 2 * jitter_ + 3 * shuffle_;
  return rtt - base_ > std::max<Duration>(allowed, base_ / 8);
}

bool RoundTrips::end_look(Instant now) {
  if (looked_ == Duration::max()) return false;
  take_new_base(now, looked_);
  return true;
}

}  // namespace rocecoll
