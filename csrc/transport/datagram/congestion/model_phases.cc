// SPDX-License-Identifier: Apache-2.0
// When the model of a path changes its phase, and what a round of each phase teaches.
#include <algorithm>
#include <chrono>

#include "transport/datagram/congestion/model.h"

namespace rocecoll {
namespace {

// Rounds of a cruise: those of BBR's eight round trips that are at the rate (ACM Queue 2016). The
// draft (section 5.3.3.8.3) cruises for two seconds or more, longer than most collective calls
// take.
constexpr uint32_t kCruiseRounds = 6;
// Rounds after which draining ends in any case (the draft, section 5.3.2).
constexpr uint32_t kMostDown = 3;
// The least share of the rate that a queue without overflow leaves: the gain of ProbeBW_DOWN (the
// draft, section 5.6.1).
constexpr double kQueueKept = 0.9;
// Standard deviations above random loss from which on a probe counts as too strong. With three,
// eight senders on a queue of 50 us lose a fifth; with none, a sender that loses 5 % anyway gets
// half of its rate or less (bottleneck_test: EightSenders and FiveInHundredLost).
constexpr double kProbeDeviations = 2;
// Longer than any queue that the least windows of a few senders make (bottleneck_test).
constexpr Duration kLongQueue = std::chrono::milliseconds(2);
// Between two looks at the empty round trip: BBR.ProbeRTTInterval (the draft, section 2.16.2).
constexpr Duration kBaseAge = std::chrono::seconds(5);
// A look lasts this long and two round trips at least. The draft's 200 ms (section 5.3.4.2) let
// flows with different round trips overlap, which in a cluster hardly differ (model_test:
// TheEmptyRoundTripIsLookedForEveryFewSeconds).
constexpr Duration kLookTime = std::chrono::milliseconds(2);

}  // namespace

void ModelController::enter(Phase phase) {
  cycle_.enter(phase, random_loss_.doubtful());
  if (phase != Phase::kUp) return;
  if (bound_by_marks_) rates_.bound(std::max(bound_, rates_.recent()));
  bound_by_marks_ = false;
  bound_ = 0;
  strength_.on_probe();
  startup_ = {};
}

void ModelController::end_round_of_phase(bool queued, bool overflow) {
  switch (cycle_.phase()) {
    case Phase::kStartup:
      if (startup_.over(delivery_rate(), shows_rate(), queued || overflow)) {
        enter(Phase::kDrain);
      }
      break;
    case Phase::kUp:
      drain_window_ = queued ? own_share_bytes() : 0;
      if (told_by_trains() && overflow) strength_.on_overflow();
      if (queued || overflow || marks_.any() ||
          (meter_.round().broken && startup_.over(delivery_rate(), shows_rate(), false))) {
        enter(Phase::kDown);
      }
      break;
    case Phase::kDown:
    case Phase::kCruise:
      end_steady_round(queued, overflow);
      break;
    case Phase::kContest:
      end_contest_round(queued, overflow);
      break;
    case Phase::kDrain:
    case Phase::kLookAtBase:
      break;
  }
}

// Every sender that sees a queue drains it at once, down to what its own share of the rate needs.
// Overflow that no probe of this sender caused bounds the rate until the next probe.
void ModelController::end_steady_round(bool queued, bool overflow) {
  const Round& round = meter_.round();
  const bool drained = drain_window_ > 0;
  const bool drain = queued && round.limited && !drained;
  drain_window_ = drain ? own_share_bytes() : 0;
  const bool probed = cycle_.shows_probe();
  if (probed && overflow) {
    if (random_loss_.surely_overflowed(round, kProbeDeviations)) strength_.on_overflow();
  } else if ((queued || overflow) && round.limited) {
    const double least = rate() * (overflow ? kLossKept : kQueueKept);
    bound_ = std::clamp(rates_.recent() * kMargin, least, rate());
  }
  if (marks_.any() && !probed) react_to_marks();
  if (!marks_.any()) random_loss_.learn(round, cycle_.calm_rounds(), packet());
  if (cycle_.shows_slower()) random_loss_.learn_slower(round, packet());
  if (!round.limited) return;
  // Whether the queue is more than drained flights of ours would leave.
  const bool beyond =
      own_share_bytes() > least_window() || round.least_rtt - rtts_.base() >= kLongQueue;
  // After a contest any queue that a drained flight meets counts: our late timers make none then.
  const bool still =
      queued || (contest_.window() > 0 && round.least_rtt != Duration::max() &&
                 rtts_.is_queue(round.least_rtt, sending_.burst_time() + rtts_.host_delay()));
  if (contest_.begins(drained, still, beyond, round.lost > 0)) {
    contest_.begin(static_cast<double>(bytes_in_flight()));
    enter(Phase::kContest);
  }
}

void ModelController::end_contest_round(bool queued, bool overflow) {
  const bool lost = overflow || marks_.any() || random_loss_.lost_more(meter_.round());
  if (contest_.ends(queued, lost, static_cast<double>(packet()))) {
    enter(Phase::kCruise);
  }
}

// Reacts in proportion to the share that is marked (RFC 8257 section 3.3). The next probe starts
// from the rate that this leaves: the fastest rounds before it would soon bring the queue back.
void ModelController::react_to_marks() {
  strength_.on_marks(marks_.kept());
  if (!meter_.round().limited) return;
  bound_ = std::min(rate(), delivery_rate() * marks_.kept());
  bound_by_marks_ = true;
}

void ModelController::advance(Instant now) {
  const auto flight = static_cast<double>(bytes_in_flight());
  const bool drained = flight <= path_bytes();
  switch (cycle_.phase()) {
    case Phase::kStartup:
      if (cycle_.rounds() > 0 && (is_queue(rtts_.network()) || marks_.any())) {
        enter(Phase::kDrain);
      }
      break;
    case Phase::kUp:
      // The first round measures what was sent before the phase.
      if ((cycle_.rounds() > 0 && marks_.any()) ||
          (cycle_.rounds() > 1 &&
           (is_queue(rtts_.network()) || flight >= up_gain() * path_bytes()))) {
        enter(Phase::kDown);
      }
      break;
    case Phase::kDrain:
    case Phase::kDown:
      if (drained || cycle_.rounds() >= kMostDown) enter(Phase::kCruise);
      break;
    case Phase::kCruise:
      if (cycle_.rounds() >= kCruiseRounds) enter(Phase::kUp);
      break;
    case Phase::kContest:
      break;
    case Phase::kLookAtBase:
      if (now >= look_until_ && cycle_.rounds() >= 2 && rtts_.end_look(now)) {
        enter(Phase::kCruise);
      }
      break;
  }
  look_at_base(now);
}

void ModelController::look_at_base(Instant now) {
  const Phase phase = cycle_.phase();
  const bool cycling = phase == Phase::kUp || phase == Phase::kDown || phase == Phase::kCruise;
  if (!cycling || now - rtts_.base_seen_at() < kBaseAge) return;
  enter(Phase::kLookAtBase);
  rtts_.begin_look();
  look_until_ = now + kLookTime;
}

}  // namespace rocecoll
