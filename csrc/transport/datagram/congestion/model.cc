// SPDX-License-Identifier: Apache-2.0
#include "transport/datagram/congestion/model.h"

#include <algorithm>

namespace rocecoll {
namespace {

// The least packets that make an average: one acknowledgement names as many.
constexpr uint64_t kRatePackets = 16;
// Standard deviations above random loss from which on the flight counts as too large. Fewer cost a
// path that loses 5 % at random its rate (bottleneck_test's FiveInHundredLost).
constexpr double kBoundDeviations = 3;

}  // namespace

void ModelController::on_held_back(Instant now) {
  meter_.on_held_back(now);
  const bool by_window = paced(now);
  sending_.on_held_back(by_window);
  if (by_window) pacer().forgive();
}

SendStamp ModelController::take_sent(Instant now, uint64_t bytes) {
  const OwnSending::Gap gap = sending_.on_sent(now, release_at(), rtts_.network());
  if (gap.idle && is_long()) meter_.on_idle();
  flight_bound_.on_sent(bytes_in_flight());
  pacer().on_sent(now, bytes, gap.waited);
  // A flight that ended while this host was late to go on with it still counts as one.
  if (bytes_in_flight() == bytes && !gap.goes_on) begin_round(now);
  return meter_.stamp();
}

void ModelController::take_acked(uint64_t bytes, Instant sent_at, const SendStamp& stamp) {
  meter_.on_acked(bytes, sent_at, stamp);
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
  const bool round_trip = meter_.complete(arrived_at);
  if (!rtts_.known()) return;
  // A flight of less than a round trip ends the round as well.
  const bool complete = round_trip || (is_long() && bytes_in_flight() == 0 &&
                                       meter_.round().train_time >= kLeastRound);
  const bool measured = cycle_.phase() == Phase::kStartup || bytes_in_flight() == 0 ||
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
  take_rate(arrived_at, queued, overflow);
  catch_up_.on_round(pacer().take_used_up(), round.lost > 0, packet());
  breaker().on_round(arrived_at, round.acked, round.lost,
                     round.limited ? round.time(arrived_at) : Duration{0});
  marks_.end_round();
  random_loss_.count_round(is_queue(round.most_rtt));
  // Marks bound the flight before it overflows. Where packets overtake each other, loss is at first
  // declared too soon.
  if (marks_.value() > 0 || rtts_.reorders()) {
    flight_bound_.forget_held();
  } else {
    // A flight of less than the path holds can fill a queue only by its pace.
    const bool too_fast = told_by_trains() && flight_bound_.most() < path_bytes();
    flight_bound_.end_round(!too_fast && random_loss_.surely_overflowed(round, kBoundDeviations),
                            packet());
  }
  cycle_.end_round();
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

// Whether the sender was idle for a part of the round, but sent enough in the rest of it.
bool ModelController::told_by_trains() const {
  const Round& round = meter_.round();
  return round.broken && round.train_acked >= kRatePackets * packet() &&
         round.train_time >= kLeastRound;
}

// Whether the path, and not what there was to send, limited what the round delivered.
bool ModelController::shows_rate() const {
  return meter_.round().limited && (!meter_.round().broken || told_by_trains());
}

// Takes the average of the whole round. The best sample within it would be above what the path
// gives, the more so the smaller our share of its packets is.
void ModelController::take_rate(Instant arrived_at, bool queued, bool overflow) {
  const Round& round = meter_.round();
  const bool trains = told_by_trains();
  double average = trains ? round.train_average() : round.average(arrived_at);
  if (trains && overflow) rates_.bound(average);
  const Phase phase = cycle_.phase();
  const bool steady = phase != Phase::kStartup && phase != Phase::kContest;
  if (steady && queued && shows_rate() && round.acked >= kRatePackets * packet()) {
    rates_.take_queued(average, sending_.rested());
  }
  const bool met_queue = queued || marks_.any();
  if (met_queue) sending_.on_queue();
  // What arrives faster than it was paced was delayed and then passed at once: a token bucket that
  // rested lets its burst go at the line's rate, which is not the path's. Rounds of few packets are
  // exempt: many senders on a short path have such rounds, and the smaller ones gain by them.
  const bool late = !met_queue && phase != Phase::kStartup &&
                    (sending_.rested() || round.acked > kLeastPackets * packet());
  if (late || trains) {
    average = std::min(average, std::max(pacer().rate(), last_pace_) / (1 - random_loss_.share()));
  }
  last_pace_ = pacer().rate();
  // A round sent below the rate says nothing, unless it arrived faster than the model's rate.
  if (!shows_rate() && average <= delivery_rate()) return;
  rates_.take(average);
}

}  // namespace rocecoll
