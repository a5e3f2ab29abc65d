// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "base/time.h"
#include "transport/reliability/catch_up.h"
#include "transport/reliability/circuit_breaker.h"
#include "transport/reliability/delivery_rate.h"
#include "transport/reliability/mark_share.h"
#include "transport/reliability/pacer.h"

namespace rocecoll {

// How many bytes may be in flight on a path, and how fast they go out: by a model of the path, the
// most that it delivered lately and its empty round trip, rather than by single signs (BBR:
// Cardwell et al., ACM Queue 2016; draft-ietf-ccwg-bbr). A host that is busy for a moment delivers
// less and answers late in that moment; the most and the least are not moved by it, nor by random
// loss.
//
// - Startup: the rate nearly triples each round trip, until more is not delivered.
// - Then cycles: a round trip or more above the rate (up) until a queue shows, or the path is full;
//   below it (down) until the queue is gone; at the rate (cruise), where loss is noise.
// - A queue beyond the hosts' jitter is drained by all who see it, to what their share needs (FAST
//   TCP; Copa, NSDI 2018). One that stays and overflows is TCP's, and is competed with as TCP does.
// - Probes that make a queue overflow become weaker, and the bursts smaller.
// - Where queues mark packets (ECN), their share bounds rate, bursts and flight (DCTCP, RFC 8257).
// - Every few seconds the flight shrinks until the empty round trip shows again.
class CongestionController {
 public:
  // Ten packets of Ethernet (RFC 6928), more for larger packets.
  static constexpr uint64_t kInitialWindow = 16 * 1024;
  static constexpr uint64_t kLeastPackets = 4;
  static constexpr uint64_t kMaxWindow = 64 * 1024 * 1024;

  // Not `steered`: no network lies between, and the window is max_window_bytes for good, unpaced.
  // What looks like queueing on one host is a process that waits for a core.
  explicit CongestionController(uint64_t max_window_bytes, bool steered = true);

  uint64_t window() const { return window_; }
  uint64_t bytes_in_flight() const { return in_flight_; }
  bool has_room(uint64_t bytes) const { return in_flight_ + bytes <= window_; }
  // Whether the pacer lets the next packet go, and when it will.
  bool paced(Instant now) const { return pacer_.ready(now); }
  Instant release_at() const { return pacer_.release_at(); }

  // What the path has delivered so far, which on_acked() wants back.
  uint64_t on_sent(Instant now, uint64_t bytes);
  // Something waits for the window or the pacer: what is measured now is what the path gives.
  void on_held_back(Instant now) {
    held_back_at_ = now;
    held_back_ = paced(now) ? HeldBack::kByWindow : HeldBack::kByPacer;
    if (held_back_ == HeldBack::kByWindow) pacer_.forgive();
  }
  // A packet that only probes the path's MTU: neither its size nor its loss says anything here.
  void on_probe_sent(uint64_t bytes) { in_flight_ += bytes; }
  // For each packet acknowledged, then once end_acknowledgement().
  void on_acked(uint64_t bytes, Instant sent_at, uint64_t delivered_before);
  void on_lost(uint64_t bytes);
  // So many of the packets that this acknowledgement names were marked by a queue (ECN).
  void on_marked(uint64_t packets) {
    if (steered_) marks_.on_marked(packets);
  }
  // Neither acknowledged nor lost: its connection is gone, or it was a probe.
  void on_discarded(uint64_t bytes);
  // What was delivered says nothing of the rate: packets were too large for the path. Begins anew,
  // but for the round trips.
  void restart(Instant now);

  // What an acknowledgement says of the network: the round trip without what passed on the peer's
  // host, and that. Nothing if it names no packet whose round trip is known.
  struct Timing {
    Duration network;
    Duration host;
    bool reorders = false;  // the path lately, so that its times vary without a queue
  };
  // Also of what opens a connection, before anything of ours stands in a queue.
  void take_timing(Instant now, const Timing& timing);
  // `arrived_at`: when the newest packet that it names came to the peer's host, but for the time
  // that the way back takes.
  void end_acknowledgement(Instant now, Instant arrived_at, const std::optional<Timing>& timing);

  // Somebody should be told, once, when so much gets lost that it slows down whatever else it
  // knows.
  CircuitBreaker& breaker() { return breaker_; }
  // The round trip of an empty path, as far as it was seen.
  Duration base_rtt() const { return base_rtt_; }
  // Bytes per second.
  double delivery_rate() const { return rates_.most(); }

 private:
  enum class HeldBack : uint8_t { kNot, kByWindow, kByPacer };
  enum class Phase : uint8_t { kStartup, kDrain, kUp, kDown, kCruise, kLookAtBase, kContest };
  static constexpr Duration kUnknown = Duration::max();
  // Of the rate that is used between probes, so that a queue empties.
  static constexpr double kMargin = 0.99;
  struct Round {
    Duration least_rtt = kUnknown;
    Duration most_rtt{};
    Instant began{};
    uint64_t acked = 0;
    uint64_t lost = 0;
    uint32_t losses = 0;
    bool limited = false;  // by this controller, not by what there is to send
  };

  void leave_flight(uint64_t bytes);
  void take_busy_time(Duration round_trip, Duration own);
  void take_rate(double average, bool queued);
  void begin_round(Instant now);
  void end_round(Instant arrived_at);
  void end_startup_round(bool queued, bool overflow);
  void end_steady_round(bool queued, bool overflow);
  void end_contest_round(bool queued, bool overflow);
  bool overflowed() const;
  bool is_queue(Duration rtt) const;
  void learn_noise();
  void react_to_marks();
  void enter(Phase phase);
  void advance(Instant now);
  void look_at_base(Instant now);
  void steer(Instant now);
  double gain() const;
  double up_gain() const;
  double own_share_bytes() const;
  double rate() const;
  double path_bytes() const;

  const uint64_t max_window_;
  const bool steered_;
  uint64_t window_;
  uint64_t in_flight_ = 0;
  uint64_t packet_ = 1;  // bytes of the largest
  Pacer pacer_;
  CatchUp catch_up_;
  CircuitBreaker breaker_;
  uint64_t delivered_ = 0;
  MarkShare marks_;

  Phase phase_ = Phase::kStartup;
  uint32_t rounds_in_phase_ = 0;
  uint32_t calm_rounds_ = 0;   // since the last probe
  uint32_t empty_rounds_ = 0;  // since a packet met a queue
  Round round_;
  uint64_t round_ends_at_ = 0;           // delivered
  HeldBack held_back_ = HeldBack::kNot;  // since the last packet
  Instant held_back_at_{};
  // Of the acknowledgement that is being read: when the oldest and newest of its packets were sent,
  // and what was delivered before the newest.
  Instant oldest_acked_at_ = kNever;
  Instant newest_acked_at_{};
  uint64_t newest_delivered_before_ = 0;

  DeliveryRate rates_;  // of rounds that count
  Instant last_sent_at_{};
  bool rested_ = false;   // a token bucket may have filled, and no queue has shown it empty since
  double last_pace_ = 0;  // the pacer's rate at the end of the round before
  double full_rate_ = 0;  // in startup
  uint32_t full_rounds_ = 0;
  double bound_ = 0;  // of the rate until the next probe; 0: none
  bool bound_by_marks_ = false;
  double drain_window_ = 0;  // what our share of the rate needs without the queue; 0: no queue
  double probe_ = 1;         // strength of probes and bursts: what the path's queue takes
  double burst_share_ = 1;   // of bursts alone, less while marks come outside of probes
  double noise_ = 0;         // share of loss that is nobody's fault
  uint32_t stuck_ = 0;       // rounds in a row with a queue
  bool stuck_lost_ = false;  // in one of them
  double contest_window_ = 0;

  Duration base_rtt_ = kUnknown;
  Instant base_seen_at_{};
  Duration looked_rtt_ = kUnknown;  // while looking at the base
  Instant look_until_{};
  Duration network_rtt_{};  // smoothed
  Duration host_delay_{};   // of acknowledgements, smoothed
  Duration busy_time_{};    // of the peer and ourselves, the longest lately
  Duration jitter_{};       // of the hosts: what rounds that fill no queue show
  Duration latest_rtt_{};
  Duration shuffle_{};     // between two round trips of a path that reorders, on average
  Duration burst_time_{};  // that a burst of ours takes at the bottleneck
  Duration lateness_{};    // of our timers, smoothed
};

}  // namespace rocecoll
