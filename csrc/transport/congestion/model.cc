// SPDX-License-Identifier: Apache-2.0
#include "transport/congestion/model.h"

#include <algorithm>

namespace rocecoll {
namespace {

constexpr uint64_t kRatePackets = 16;  // that make an average: an acknowledgement names as many
// Of random loss, before what was in flight is taken for too much (bottleneck_test: 5 % lost).
constexpr double kBoundDeviations = 3;

}  // namespace

void ModelController::on_held_back(Instant now) {
  meter_.on_held_back(now);
  held_back_ = paced(now) ? HeldBack::kByWindow : HeldBack::kByPacer;
  if (held_back_ == HeldBack::kByWindow) pacer().forgive();
}

uint64_t ModelController::take_sent(Instant now, uint64_t bytes) {
  // What a flight delivered that ended while we got up late to go on with it still counts.
  const bool waited = held_back_ == HeldBack::kByPacer;
  const Duration late = waited ? now - release_at() : Duration{0};
  const bool goes_on = held_back_ == HeldBack::kByWindow || late > kLeastRound;
  const bool begins = bytes_in_flight() == bytes && !goes_on;
  held_back_ = HeldBack::kNot;
  // Since it could have sent.
  const Instant due = std::max(last_sent_at_, release_at());
  if (last_sent_at_ != Instant{} && now - due > kLeastRound + rtts_.network()) rested_ = true;
  last_sent_at_ = now;
  if (waited) {
    lateness_ += (std::clamp(late, Duration{0}, Pacer::kMostLate) - lateness_) / 8;
  }
  flight_bound_.on_sent(bytes_in_flight());
  pacer().on_sent(now, bytes, waited);
  if (begins) begin_round(now);
  return meter_.delivered();
}

void ModelController::take_acked(uint64_t bytes, Instant sent_at, uint64_t delivered_before) {
  meter_.on_acked(bytes, sent_at, delivered_before);
  marks_.on_acked();
}

void ModelController::restart(Instant now) {
  reset_window();
  rates_ = {};
  marks_ = {};
  random_loss_ = {};
  strength_ = {};
  catch_up_ = {};
  startup_ = {};
  flight_bound_ = {};
  contest_ = {};
  longer_path_ = {};
  last_pace_ = bound_ = drain_window_ = 0;
  bound_by_marks_ = false;
  enter(Phase::kStartup);
  begin_round(now);
}

void ModelController::take_timing(Instant now, const Timing& timing) {
  rtts_.take(now, timing);
  meter_.take_rtt(timing.network);
}

void ModelController::end_acknowledgement(Instant now, Instant arrived_at,
                                          const std::optional<Timing>& timing) {
  const Instant oldest_at = meter_.take_oldest();
  if (timing) {
    take_timing(now, *timing);
    const Instant answered = arrived_at + timing->host;
    rtts_.take_busy_time(answered - std::min(oldest_at, answered), now - answered - timing->back);
  }
  if (!rtts_.known()) return;
  const bool complete = meter_.complete();
  const bool measured = phase_ == Phase::kStartup || bytes_in_flight() == 0 ||
                        meter_.round().time(arrived_at) >= kLeastRound;
  if (complete && measured) end_round(arrived_at);
  advance(now);
  steer(now);
}

void ModelController::begin_round(Instant now) {
  meter_.begin(now);
  marks_.begin_round();
}

void ModelController::end_round(Instant arrived_at) {
  const Round& round = meter_.round();
  const bool queued = round.least_rtt != Duration::max() && is_queue(round.least_rtt);
  const bool overflow = random_loss_.overflowed(round);
  if (!round.limited) rtts_.take_calm_round();
  take_rate(round.average(arrived_at), queued);
  catch_up_.on_round(pacer().take_used_up(), overflow, packet());
  breaker().on_round(arrived_at, round.acked, round.lost,
                     round.limited ? round.time(arrived_at) : Duration{0});
  marks_.end_round();
  random_loss_.count_round(is_queue(round.most_rtt));
  // What queues mark bounds the flight sooner; where packets overtake each other, loss is declared
  // too soon at first.
  if (marks_.value() > 0 || rtts_.reorders()) {
    flight_bound_ = {};
  } else {
    flight_bound_.on_round(random_loss_.surely_overflowed(round, kBoundDeviations), packet());
  }
  ++rounds_in_phase_;
  ++calm_rounds_;
  if (became_longer(arrived_at)) {
    rtts_.take_new_base(arrived_at, round.least_rtt);
    startup_ = {};
    drain_window_ = bound_ = 0;
    enter(Phase::kStartup);
  } else {
    end_round_of_phase(queued, overflow);
  }
  begin_round(arrived_at);
}

bool ModelController::became_longer(Instant now) {
  const Round& round = meter_.round();
  if (round.losses > 0) {
    longer_path_.on_loss();
    return false;
  }
  if (round.least_rtt == Duration::max()) return false;
  return longer_path_.on_round(now, round.least_rtt - rtts_.base(), round.least_rtt);
}

// Of a whole round: the best of its samples would be above what the path gives, the more so the
// fewer packets of it are ours.
void ModelController::take_rate(double average, bool queued) {
  const Round& round = meter_.round();
  const bool steady = phase_ != Phase::kStartup && phase_ != Phase::kContest;
  if (steady && queued && round.limited && round.acked >= kRatePackets * packet()) {
    rates_.take_queued(average, rested_);
  }
  const bool met_queue = queued || marks_.any();
  if (met_queue) rested_ = false;
  // What arrives faster than it was paced was late, and passed at once: a token bucket that rested
  // lets its burst go at the line's rate, which is not the path's. Only from few packets at a time,
  // as many senders on a short path have, more than was paced is how the smaller ones gain.
  if (!met_queue && phase_ != Phase::kStartup &&
      (rested_ || round.acked > kLeastPackets * packet())) {
    average = std::min(average, std::max(pacer().rate(), last_pace_) / (1 - random_loss_.share()));
  }
  last_pace_ = pacer().rate();
  // What was sent below the rate says nothing, unless it arrived faster than the model has it.
  if (!round.limited && average <= delivery_rate()) return;
  rates_.take(average);
}

}  // namespace rocecoll
