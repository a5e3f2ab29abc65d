// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/time.h"
#include "transport/datagram/congestion/congestion_controller.h"

namespace rocecoll {

// What the round trips of a path tell: how long the empty path takes, what the hosts add, and what
// beyond both is a queue.
class RoundTrips {
 public:
  bool known() const { return base_ != Duration::max(); }
  // The round trip of the empty path, as far as it was seen.
  Duration base() const { return base_; }
  // The network's part of a round trip, smoothed.
  Duration network() const { return network_; }
  // How long acknowledgements wait in queues on their way back, smoothed.
  Duration back() const { return back_; }
  // How long acknowledgements wait at the peer's host, smoothed.
  Duration host_delay() const { return host_delay_; }
  // The longest that the peer or this process has lately waited for a core.
  Duration busy_time() const { return busy_time_; }
  // Whether packets have lately overtaken each other, so that times vary without a queue.
  bool reorders() const { return shuffle_ > Duration{0}; }
  // When the round trip was last near the base.
  Instant base_seen_at() const { return base_seen_at_; }

  void take(Instant now, const CongestionController::Timing& timing);
  // `round_trip` is that of the oldest packet that an acknowledgement names: the newest may be a
  // probe, sent when the peer had been silent for long. `own`: how long after the acknowledgement
  // came this process was given a core.
  void take_busy_time(Duration round_trip, Duration own);
  // After a round that could fill no queue: learns how much jitter looks like one.
  void take_calm_round();
  // Whether a round trip is longer than jitter explains: that of the hosts, that of a network which
  // reorders, and `own`, that of our own bursts and late timers.
  bool is_queue(Duration rtt, Duration own) const;

  // Replaces the base whatever was seen before: the path has become longer, or is better known.
  void take_new_base(Instant now, Duration rtt) {
    base_ = rtt;
    base_seen_at_ = now;
  }
  // Begins a look: the path is left nearly empty to see how long it takes now.
  void begin_look() { looked_ = Duration::max(); }
  // Ends it. False if no round trip was seen; otherwise the shortest is the base.
  bool end_look(Instant now);

 private:
  Duration base_ = Duration::max();
  Instant base_seen_at_{};
  Duration looked_ = Duration::max();
  Duration network_{};
  Duration back_{};
  Duration host_delay_{};
  Duration busy_time_{};
  Duration jitter_{};  // of the hosts
  Duration latest_{};
  // The average difference between successive round trips while the path reorders; else zero.
  Duration shuffle_{};
};

}  // namespace rocecoll
