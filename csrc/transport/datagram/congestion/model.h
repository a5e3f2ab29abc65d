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

// Steers by a model of the path rather than by single signs: the most that the path delivered
// lately, and its empty round trip (BBR: Cardwell et al., ACM Queue 2016; draft-ietf-ccwg-bbr-06,
// "the draft" in this directory). A host that is busy for a moment delivers less and answers late
// in that moment; neither that nor random loss changes the maximum and the minimum.
//
// - Startup: the rate nearly triples each round trip until the path delivers no more.
// - Then cycles: above the rate for a round trip or more, until a queue shows or the path is full
//   (up); below it until the queue is gone (down); at the rate, where loss is noise (cruise).
// - A queue beyond the hosts' jitter is drained by all senders that see it, each to what its share
//   needs (FAST TCP; Copa, NSDI 2018). A queue that stays and overflows is TCP's; the sender
//   competes with it as TCP does.
// - Probes that make a queue overflow become weaker, and bursts smaller. After any overflow less
//   may be in flight for a while.
// - Where queues mark packets (ECN), the share of marked ones bounds rate, bursts and flight
//   (DCTCP, RFC 8257).
// - Every few seconds the flight shrinks until the empty round trip shows again. A round trip that
//   has become longer for good restarts everything.
//
// model.cc takes acknowledgements and measures rounds, model_phases.cc changes phases,
// model_steer.cc derives pace, bursts and window.
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
  // The share of the rate that is used, so that a queue empties: BBR.PacingMarginPercent (the
  // draft, section 2.5).
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

  // Whether a collective call may be less than the path holds. Where the round trip is shorter, it
  // is a small part of the least round.
  bool is_long() const { return rtts_.known() && rtts_.base() >= kLeastRound; }
  // Whether only a queue explains a round trip of this length.
  bool is_queue(Duration rtt) const { return rtts_.is_queue(rtt, sending_.jitter()); }
  double rate() const;
  // What can be in flight without a queue of ours. Others' queues on the way back make the path
  // longer.
  double path_bytes() const { return delivery_rate() * Seconds(rtts_.base() + rtts_.back()); }
  // This sender's share of that.
  double own_share_bytes() const { return rates_.recent() * Seconds(rtts_.base() + rtts_.back()); }

  // What is known of the path and of this host.
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
  double drain_window_ = 0;  // what our share of the rate needs without a queue; 0: no queue
  double last_pace_ = 0;     // the pacer's rate at the end of the previous round
};

}  // namespace rocecoll
