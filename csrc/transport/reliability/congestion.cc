// SPDX-License-Identifier: Apache-2.0
#include "transport/reliability/congestion.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "transport/reliability/rtt_estimator.h"

namespace rocecoll {
namespace {

// Startup ends when the rate has grown by less for so many round trips.
constexpr double kFullGrowth = 1.25;
constexpr uint32_t kFullRounds = 3;
// A round trip, or as long as a shaper's burst may pass faster than its rate.
constexpr Duration kLeastRound = std::chrono::microseconds(200);
constexpr uint32_t kCruiseRounds = 6;
constexpr uint32_t kMostDown = 3;
// What queueing is told from, beside the jitter of the hosts and the own bursts.
constexpr Duration kLeastQueue = std::chrono::microseconds(25);
constexpr Duration kMostJitter = std::chrono::microseconds(200);
constexpr double kTolerableLoss = 0.02;  // as BBRv3
constexpr double kNoiseScale = 1.5;
constexpr double kMostNoise = 0.25;
constexpr double kNoisePackets = 256;  // until it is known
constexpr uint32_t kLossShows = 3;     // rounds after the probe that caused it
constexpr uint32_t kLeastLosses = 3;   // that prove anything
constexpr uint64_t kRatePackets = 16;  // that make an average: an acknowledgement names as many
constexpr double kLossKept = 0.7;      // CUBIC's beta (RFC 9438 section 4.6)
constexpr double kQueueKept = 0.9;
// Of the strength of probes and bursts, at an overflow and at each probe.
constexpr double kLeastProbe = 1.0 / 16;
constexpr double kProbeKept = 0.7;
constexpr double kProbeGrowth = 1.05;
// A queue that stands for so many rounds and overflows is others', and after more of them also one
// that does not; when that is tried again.
constexpr uint32_t kMostStuck = 6;
constexpr uint32_t kMostStuckWithoutLoss = 30;
constexpr uint32_t kContestRounds = 400;
// Between two looks at the empty round trip, and for how long, at least two round trips.
constexpr Duration kBaseAge = std::chrono::seconds(5);
constexpr Duration kLookTime = std::chrono::milliseconds(2);

}  // namespace

CongestionController::CongestionController(uint64_t max_window_bytes, bool steered)
    : max_window_(max_window_bytes),
      steered_(steered),
      window_(steered ? std::min(kInitialWindow, max_window_bytes) : max_window_bytes) {
  ROCECOLL_CHECK(max_window_bytes > 0);
}

uint64_t CongestionController::on_sent(Instant now, uint64_t bytes) {
  ROCECOLL_CHECK(bytes > 0);
  // What a flight delivered that ended while we got up late to go on with it still counts.
  const bool waited = held_back_ == HeldBack::kByPacer;
  const Duration late = waited ? now - pacer_.release_at() : Duration{0};
  const bool goes_on = held_back_ == HeldBack::kByWindow || late > kLeastRound;
  const bool begins = in_flight_ == 0 && !goes_on;
  held_back_ = HeldBack::kNot;
  in_flight_ += bytes;
  if (!steered_) return 0;
  // Since it could have sent.
  const Instant due = std::max(last_sent_at_, pacer_.release_at());
  if (last_sent_at_ != Instant{} && now - due > kLeastRound + network_rtt_) rested_ = true;
  last_sent_at_ = now;
  if (bytes > packet_) {
    packet_ = bytes;
    window_ = std::max(window_, std::min(max_window_, kLeastPackets * packet_));
  }
  if (waited) {
    lateness_ += (std::clamp(late, Duration{0}, Pacer::kMostLate) - lateness_) / 8;
  }
  pacer_.on_sent(now, bytes, waited);
  if (begins) begin_round(now);
  return delivered_;
}

void CongestionController::on_acked(uint64_t bytes, Instant sent_at, uint64_t delivered_before) {
  leave_flight(bytes);
  if (!steered_) return;
  delivered_ += bytes;
  if (sent_at >= newest_acked_at_) {
    newest_acked_at_ = sent_at;
    newest_delivered_before_ = delivered_before;
  }
  round_.acked += bytes;
  marks_.on_acked();
  oldest_acked_at_ = std::min(oldest_acked_at_, sent_at);
}

void CongestionController::on_lost(uint64_t bytes) {
  leave_flight(bytes);
  round_.lost += bytes;
  ++round_.losses;
}

void CongestionController::on_discarded(uint64_t bytes) { leave_flight(bytes); }

void CongestionController::restart(Instant now) {
  if (!steered_) return;
  packet_ = 1;
  window_ = std::min(kInitialWindow, max_window_);
  pacer_ = Pacer();
  catch_up_ = CatchUp();
  rates_ = {};
  last_pace_ = full_rate_ = bound_ = drain_window_ = noise_ = 0;
  full_rounds_ = stuck_ = 0;
  stuck_lost_ = false;
  probe_ = burst_share_ = 1;
  marks_ = {};
  bound_by_marks_ = false;
  enter(Phase::kStartup);
  begin_round(now);
}

void CongestionController::leave_flight(uint64_t bytes) {
  ROCECOLL_CHECK(bytes <= in_flight_);
  in_flight_ -= bytes;
}

void CongestionController::end_acknowledgement(Instant now, Instant arrived_at,
                                               const std::optional<Timing>& timing) {
  if (!steered_) return;
  if (timing) {
    take_timing(now, *timing);
    const Instant arrived = arrived_at + timing->host;
    take_busy_time(arrived - std::min(oldest_acked_at_, arrived), now - arrived);
  }
  oldest_acked_at_ = kNever;
  if (base_rtt_ == kUnknown) return;
  round_.limited = round_.limited || held_back_at_ >= newest_acked_at_;
  const bool measured =
      phase_ == Phase::kStartup || in_flight_ == 0 || arrived_at - round_.began >= kLeastRound;
  if (newest_delivered_before_ >= round_ends_at_ && measured) end_round(arrived_at);
  advance(now);
  steer(now);
}

void CongestionController::take_timing(Instant now, const Timing& timing) {
  if (!steered_) return;
  // Near the base is at the base: a path that is often empty needs no look.
  if (base_rtt_ == kUnknown) network_rtt_ = timing.network;
  if (base_rtt_ == kUnknown || timing.network <= base_rtt_ + base_rtt_ / 8) base_seen_at_ = now;
  base_rtt_ = std::min(base_rtt_, timing.network);
  const Duration step = timing.network - std::exchange(latest_rtt_, timing.network);
  shuffle_ = timing.reorders ? shuffle_ + ((step < Duration{0} ? -step : step) - shuffle_) / 8
                             : Duration{0};
  looked_rtt_ = std::min(looked_rtt_, timing.network);
  round_.least_rtt = std::min(round_.least_rtt, timing.network);
  round_.most_rtt = std::max(round_.most_rtt, timing.network);
  network_rtt_ += (timing.network - network_rtt_) / 8;
  host_delay_ += (timing.host - host_delay_) / 8;
}

// By the oldest packet that an acknowledgement names: the newest may be a probe, sent when the peer
// had kept silent for long. A peer that is not busy waits, too, before it acknowledges. Our own
// process may have been given a core `own` after that came.
void CongestionController::take_busy_time(Duration round_trip, Duration own) {
  const Duration peer = round_trip - network_rtt_ - RttEstimator::kMostIntended;
  const Duration busy = std::max(peer, Duration{0}) + std::min(own, Pacer::kMostLate);
  busy_time_ = std::max(busy, busy_time_ + (busy - busy_time_) / 64);
}

// Of a whole round: the best of its samples would be above what the path gives, the more so the
// fewer packets of it are ours.
void CongestionController::take_rate(double average, bool queued) {
  const bool steady = phase_ != Phase::kStartup && phase_ != Phase::kContest;
  if (steady && queued && round_.limited && round_.acked >= kRatePackets * packet_) {
    rates_.take_queued(average, rested_);
  }
  const bool met_queue = queued || marks_.any();
  if (met_queue) rested_ = false;
  // What arrives faster than it was paced was late, and passed at once: a token bucket that rested
  // lets its burst go at the line's rate, which is not the path's. Only from few packets at a time,
  // as many senders on a short path have, more than was paced is how the smaller ones gain.
  if (!met_queue && phase_ != Phase::kStartup &&
      (rested_ || round_.acked > kLeastPackets * packet_)) {
    average = std::min(average, std::max(pacer_.rate(), last_pace_) / (1 - noise_));
  }
  last_pace_ = pacer_.rate();
  // What was sent below the rate says nothing, unless it arrived faster than the model has it.
  if (!round_.limited && average <= delivery_rate()) return;
  rates_.take(average);
}

// Of what the path holds without a queue.
double CongestionController::own_share_bytes() const {
  return rates_.recent() * Seconds(base_rtt_);
}

double CongestionController::rate() const {
  const double best = delivery_rate();
  return bound_ > 0 ? std::min(best, bound_) : best;
}

double CongestionController::path_bytes() const { return delivery_rate() * Seconds(base_rtt_); }

// Beyond what the hosts' jitter and the own bursts make, and the network's where it reorders, which
// no queue does. Where each way takes up to a time longer, two round trips differ by nearly half of
// that, and the average is longer by twice that.
bool CongestionController::is_queue(Duration rtt) const {
  const Duration own = burst_time_ + lateness_ + kLeastQueue + 2 * jitter_ + 3 * shuffle_;
  return rtt - base_rtt_ > std::max<Duration>(own, base_rtt_ / 8);
}

bool CongestionController::overflowed() const {
  const auto total = static_cast<double>(round_.acked + round_.lost);
  return round_.losses >= kLeastLosses &&
         static_cast<double>(round_.lost) > total * (kTolerableLoss + kNoiseScale * noise_);
}

void CongestionController::end_round(Instant arrived_at) {
  ROCECOLL_CHECK(base_rtt_ != kUnknown);
  const bool queued = round_.least_rtt != kUnknown && is_queue(round_.least_rtt);
  const bool overflow = overflowed();
  const double seconds = round_.began == Instant{} ? 0 : Seconds(arrived_at - round_.began);
  const double average = seconds > 0 ? static_cast<double>(round_.acked) / seconds : 0;
  // Rounds that fill no queue show how much looks like one.
  if (!round_.limited) jitter_ += (std::min(network_rtt_ - base_rtt_, kMostJitter) - jitter_) / 8;
  take_rate(average, queued);
  catch_up_.on_round(pacer_.take_used_up(), overflow, packet_);
  breaker_.on_round(arrived_at, round_.acked, round_.lost,
                    round_.limited && seconds > 0 ? arrived_at - round_.began : Duration{0});
  marks_.end_round();
  ++rounds_in_phase_;
  empty_rounds_ = is_queue(round_.most_rtt) ? 0 : empty_rounds_ + 1;
  ++calm_rounds_;
  switch (phase_) {
    case Phase::kStartup:
      end_startup_round(queued, overflow);
      break;
    case Phase::kDrain:
      break;
    case Phase::kUp:
      drain_window_ = queued ? own_share_bytes() : 0;
      if (queued || overflow || marks_.any()) enter(Phase::kDown);
      break;
    case Phase::kDown:
    case Phase::kCruise:
      end_steady_round(queued, overflow);
      break;
    case Phase::kLookAtBase:
      break;
    case Phase::kContest:
      end_contest_round(queued, overflow);
      break;
  }
  begin_round(arrived_at);
}

void CongestionController::begin_round(Instant now) {
  round_ = {};
  marks_.begin_round();
  round_.began = now;
  round_ends_at_ = delivered_;
}

void CongestionController::end_startup_round(bool queued, bool overflow) {
  if (delivery_rate() >= full_rate_ * kFullGrowth) {
    full_rate_ = delivery_rate();
    full_rounds_ = 0;
    return;
  }
  if (!round_.limited) return;
  ++full_rounds_;
  if (full_rounds_ >= kFullRounds || queued || overflow) enter(Phase::kDrain);
}

// A queue is drained at once, by every sender that sees it, each down to what its own share of the
// rate needs; overflow that no probe of ours has caused bounds the rate until the next one.
void CongestionController::end_steady_round(bool queued, bool overflow) {
  if (!queued) {
    stuck_ = 0;
    stuck_lost_ = false;
  }
  stuck_lost_ = stuck_lost_ || (queued && round_.lost > 0);
  const bool drain = queued && round_.limited && drain_window_ == 0;
  drain_window_ = drain ? own_share_bytes() : 0;
  const bool probed = calm_rounds_ < kLossShows;
  if (probed && overflow) {
    probe_ = std::max(kLeastProbe, probe_ * kProbeKept);
  } else if ((queued || overflow) && round_.limited) {
    const double least = rate() * (overflow ? kLossKept : kQueueKept);
    bound_ = std::clamp(rates_.recent() * kMargin, least, rate());
  }
  if (marks_.any() && !probed) react_to_marks();
  learn_noise();
  const uint32_t most_stuck = stuck_lost_ ? kMostStuck : kMostStuckWithoutLoss;
  if (queued && round_.limited && ++stuck_ >= most_stuck) {
    contest_window_ = static_cast<double>(in_flight_);
    stuck_ = 0;
    enter(Phase::kContest);
  }
}

// A queue that stands is others', who fill it until it overflows: as TCP does.
void CongestionController::end_contest_round(bool queued, bool overflow) {
  if (!queued || rounds_in_phase_ >= kContestRounds) return enter(Phase::kCruise);
  if (overflow || marks_.any() || (round_.losses > 0 && noise_ < kTolerableLoss / 4)) {
    contest_window_ *= kLossKept;
  } else {
    contest_window_ += static_cast<double>(packet_);
  }
}

// From what is lost while nothing fills a queue. What a probe has lost, or a queue that was there
// for a moment, shows for a round trip or two after it.
void CongestionController::learn_noise() {
  if (std::min(empty_rounds_, calm_rounds_) < kLossShows || marks_.any()) return;
  const auto total = static_cast<double>(round_.acked + round_.lost);
  if (total == 0) return;
  const double share = static_cast<double>(round_.lost) / total;
  double weight = std::min(1.0, total / static_cast<double>(packet_) / kNoisePackets);
  if (share < noise_) weight /= 4;
  noise_ = std::min(kMostNoise, noise_ + weight * (share - noise_));
}

// Once a cycle, in proportion to how much is marked (RFC 8257 section 3.3). The next probe starts
// from what that left: the fastest rounds before would soon bring the queue back.
void CongestionController::react_to_marks() {
  burst_share_ = std::max(kLeastProbe, burst_share_ * marks_.kept());
  if (!round_.limited) return;
  bound_ = std::min(rate(), delivery_rate() * marks_.kept());
  bound_by_marks_ = true;
}

void CongestionController::enter(Phase phase) {
  if (phase_ == Phase::kUp || phase_ == Phase::kStartup) calm_rounds_ = 0;
  phase_ = phase;
  rounds_in_phase_ = 0;
  if (phase != Phase::kUp) return;
  if (bound_by_marks_) rates_.bound(std::max(bound_, rates_.recent()));
  bound_by_marks_ = false;
  bound_ = 0;
  probe_ = std::min(1.0, probe_ * kProbeGrowth);
  burst_share_ = std::min(1.0, burst_share_ * kProbeGrowth);
}

void CongestionController::advance(Instant now) {
  const auto flight = static_cast<double>(in_flight_);
  const bool drained = flight <= path_bytes();
  switch (phase_) {
    case Phase::kStartup:
      if (rounds_in_phase_ > 0 && (is_queue(network_rtt_) || marks_.any())) {
        enter(Phase::kDrain);
      }
      break;
    case Phase::kUp:
      // What the first round measures was sent before.
      if ((rounds_in_phase_ > 0 && marks_.any()) ||
          (rounds_in_phase_ > 1 &&
           (is_queue(network_rtt_) || flight >= up_gain() * path_bytes()))) {
        enter(Phase::kDown);
      }
      break;
    case Phase::kDrain:
    case Phase::kDown:
      if (drained || rounds_in_phase_ >= kMostDown) enter(Phase::kCruise);
      break;
    case Phase::kCruise:
      if (rounds_in_phase_ >= kCruiseRounds) enter(Phase::kUp);
      break;
    case Phase::kContest:
      break;
    case Phase::kLookAtBase:
      if (now >= look_until_ && rounds_in_phase_ >= 2 && looked_rtt_ != kUnknown) {
        base_rtt_ = looked_rtt_;
        base_seen_at_ = now;
        enter(Phase::kCruise);
      }
      break;
  }
  look_at_base(now);
}

void CongestionController::look_at_base(Instant now) {
  const bool cycling = phase_ == Phase::kUp || phase_ == Phase::kDown || phase_ == Phase::kCruise;
  if (!cycling || now - base_seen_at_ < kBaseAge) return;
  enter(Phase::kLookAtBase);
  looked_rtt_ = kUnknown;
  look_until_ = now + kLookTime;
}

}  // namespace rocecoll
