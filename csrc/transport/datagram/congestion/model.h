// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "base/time.h"
#include "transport/datagram/congestion/catch_up.h"
#include "transport/datagram/congestion/congestion_controller.h"
#include "transport/datagram/congestion/contest.h"
#include "transport/datagram/congestion/cycle.h"
#include "transport/datagram/congestion/delivery_rate.h"
#include "transport/datagram/congestion/flight_bound.h"
#include "transport/datagram/congestion/longer_path.h"
#include "transport/datagram/congestion/mark_share.h"
#include "transport/datagram/congestion/own_sending.h"
#include "transport/datagram/congestion/probe_strength.h"
#include "transport/datagram/congestion/random_loss.h"
#include "transport/datagram/congestion/round_meter.h"
#include "transport/datagram/congestion/round_trips.h"
#include "transport/datagram/congestion/startup_growth.h"

namespace rocecoll {

// By a model of the path, the most that it delivered lately and its empty round trip, rather than
// by single signs (BBR: Cardwell et al., ACM Queue 2016; draft-ietf-ccwg-bbr). A host that is busy
// for a moment delivers less and answers late in that moment; the most and the least are not moved
// by it, nor by random loss.
//
// - Startup: the rate nearly triples each round trip, until more is not delivered.
// - Then cycles: a round trip or more above the rate (up) until a queue shows, or the path is full;
//   below it (down) until the queue is gone; at the rate (cruise), where loss is noise.
// - A queue beyond the hosts' jitter is drained by all who see it, to what their share needs (FAST
//   TCP; Copa, NSDI 2018). One that stays and overflows is TCP's, and is competed with as TCP does.
// - Probes that make a queue overflow become weaker, and the bursts smaller; whatever made it
//   overflow, less is in flight then, and for a while.
// - Where queues mark packets (ECN), their share bounds rate, bursts and flight (DCTCP, RFC 8257).
// - Every few seconds the flight shrinks until the empty round trip shows again, and a round trip
//   that has become longer for good starts all of it anew.
//
// model.cc takes what comes and measures rounds, model_phases.cc goes from phase to phase,
// model_steer.cc says what that means for pace, bursts and window.
class ModelController final : public CongestionController {
 public:
  explicit ModelController(uint64_t max_window_bytes)
      : CongestionController(max_window_bytes, kInitialWindow) {}

  void on_held_back(Instant now) override;
  void on_marked(uint64_t packets) override { marks_.on_marked(packets); }
  void restart(Instant now) override;
  void take_timing(Instant now, const Timing& timing) override;
  void end_acknowledgement(Instant now, Instant arrived_at,
                           const std::optional<Timing>& timing) override;

  // The round trip of an empty path, as far as it was seen.
  Duration base_rtt() const { return rtts_.base(); }
  // Bytes per second.
  double delivery_rate() const { return rates_.most(); }

 private:
  using Phase = Cycle::Phase;
  static constexpr Duration kLeastRound = RoundMeter::kLeastRound;
  // Of the rate that is used between probes, so that a queue empties.
  static constexpr double kMargin = 0.99;

  SendStamp take_sent(Instant now, uint64_t bytes) override;
  void take_acked(uint64_t bytes, Instant sent_at, const SendStamp& stamp) override;
  void take_lost(Instant /*now*/, uint64_t bytes, Instant /*sent_at*/) override {
    meter_.on_lost(bytes);
  }
  void begin_round(Instant now);
  void end_round(Instant arrived_at);
  void take_rate(Instant arrived_at, bool queued, bool overflow);
  bool told_by_trains() const;
  bool shows_rate() const;
  bool became_longer(Instant now);

  void enter(Phase phase);
  void end_round_of_phase(bool queued, bool overflow);
  void end_steady_round(bool queued, bool overflow);
  void end_contest_round(bool queued, bool overflow);
  void react_to_marks();
  void advance(Instant now);
  void look_at_base(Instant now);

  void steer(Instant now);
  double gain() const;
  double up_gain() const;
  double window_of_phase(double burst) const;

  // Whether a call may be less than the path holds: a shorter round trip is a small part of the
  // least round.
  bool is_long() const { return rtts_.known() && rtts_.base() >= kLeastRound; }
  // Whether a round trip is longer than anything but a queue makes it.
  bool is_queue(Duration rtt) const { return rtts_.is_queue(rtt, sending_.jitter()); }
  double rate() const;
  // What is in flight and in no queue of ours: what others' queues do to the way back makes it
  // longer.
  double path_bytes() const { return delivery_rate() * Seconds(rtts_.base() + rtts_.back()); }
  // Our share of that.
  double own_share_bytes() const { return rates_.recent() * Seconds(rtts_.base() + rtts_.back()); }

  // What is known of the path.
  RoundMeter meter_;
  RoundTrips rtts_;
  DeliveryRate rates_;  // of rounds that count
  MarkShare marks_;
  RandomLoss random_loss_;
  ProbeStrength strength_;
  CatchUp catch_up_;
  StartupGrowth startup_;
  FlightBound flight_bound_;
  Contest contest_;
  LongerPath longer_path_;

  OwnSending sending_;

  Cycle cycle_;
  Instant look_until_{};
  double bound_ = 0;  // of the rate until the next probe; 0: none
  bool bound_by_marks_ = false;
  double drain_window_ = 0;  // what our share of the rate needs without the queue; 0: no queue
  double last_pace_ = 0;     // the pacer's rate at the end of the round before
};

}  // namespace rocecoll
