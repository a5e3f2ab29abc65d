// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/time.h"
#include "transport/datagram/congestion/congestion_controller.h"

namespace rocecoll {

// What the round trips of a path say: how long it takes when it is empty, what its hosts add, and
// what, beyond both, is a queue.
class RoundTrips {
 public:
  bool known() const { return base_ != Duration::max(); }
  // The round trip of an empty path, as far as it was seen.
  Duration base() const { return base_; }
  // Of the network, smoothed.
  Duration network() const { return network_; }
  // What acknowledgements wait in queues on their way back, smoothed.
  Duration back() const { return back_; }
  // Of acknowledgements at the peer's host, smoothed.
  Duration host_delay() const { return host_delay_; }
  // The longest lately that the peer or this process had to wait for a core.
  Duration busy_time() const { return busy_time_; }
  // Packets overtake each other lately, so that times vary without a queue.
  bool reorders() const { return shuffle_ > Duration{0}; }
  // When it was last near the base.
  Instant base_seen_at() const { return base_seen_at_; }

  void take(Instant now, const CongestionController::Timing& timing);
  // By the oldest packet that an acknowledgement names: the newest may be a probe, sent when the
  // peer had kept silent for long. Our own process may have been given a core `own` after that
  // came.
  void take_busy_time(Duration round_trip, Duration own);
  // A round that could fill no queue shows how much looks like one.
  void take_calm_round();
  // Whether a round trip is longer than the hosts' jitter makes it, the network's where it
  // reorders, and `own`, what our own bursts and late timers add.
  bool is_queue(Duration rtt, Duration own) const;

  // Whatever was seen before: the path has become longer, or is known better.
  void take_new_base(Instant now, Duration rtt) {
    base_ = rtt;
    base_seen_at_ = now;
  }
  // While the path is left nearly empty, to see how long it takes now.
  void begin_look() { looked_ = Duration::max(); }
  // Whether anything was seen; then that is the base.
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
  Duration shuffle_{};  // between two round trips of a path that reorders, on average
};

}  // namespace rocecoll
