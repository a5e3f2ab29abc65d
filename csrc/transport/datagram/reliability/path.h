// SPDX-License-Identifier: Apache-2.0
// What all connections to one peer process share: the round-trip time, the congestion window, the
// size of datagrams, and when the peer was last heard. Sans-IO.
#pragma once

#include <memory>
#include <utility>

#include "base/time.h"
#include "transport/datagram/congestion/congestion_controller.h"
#include "transport/datagram/reliability/path_mtu.h"
#include "transport/datagram/reliability/rtt_estimator.h"
#include "transport/datagram/reliability/way_back.h"
#include "transport/obstacle.h"

namespace rocecoll {

struct Path {
  explicit Path(uint64_t max_window_bytes, CongestionControl control = CongestionControl::kModel)
      : congestion(CongestionController::Make(control, max_window_bytes)) {}

  RttEstimator rtt;
  WayBack way_back;
  const std::unique_ptr<CongestionController> congestion;
  PathMtu mtu;
  // DatagramPort::checks_payload() of what carries packets now.
  bool carrier_checks = false;
  Instant last_heard{};
  Instant last_ping{};   // on any of the path's connections
  Instant vouched_at{};  // when the peer's process was last heard over another network
  // The network's latest report that the peer cannot be reached.
  Obstacle obstacle = Obstacle::kNone;
  Instant obstacle_at{};
  Instant lost_at{};  // when a packet was last found lost

  // This process did not run for `length`: the peer was not silent in that time.
  void on_pause(Instant now, Duration length) {
    if (std::exchange(measured_, false)) measurable_from_ = now;
    if (ever_heard()) last_heard += length;
    last_ping += length;
    vouched_at += length;
    obstacle_at += length;
  }
  // Round trips of packets sent before a pause contain it and are dropped. But if none was measured
  // since the previous pause, they are taken: where pauses are part of all round trips, the
  // estimate would otherwise stay short for ever, and the probes of all waiting senders would keep
  // busy the very host that answers late because it is busy.
  bool measurable(Instant sent_at) const { return sent_at >= measurable_from_; }
  void on_measured() { measured_ = true; }
  // Whether the path has lost packets lately, so that it is likely to lose more.
  static constexpr Duration kLossLasts = std::chrono::seconds(1);
  bool loses(Instant now) const { return lost_at != Instant{} && now < lost_at + kLossLasts; }
  bool ever_heard() const { return last_heard != Instant{}; }
  // The latest reported obstacle; kNone once the peer has been heard again for a while. If only the
  // way to the peer is obstructed, the peer is heard all the time.
  static constexpr Duration kObstacleLasts = std::chrono::seconds(2);
  Obstacle current_obstacle() const {
    return obstacle_at + kObstacleLasts > last_heard ? obstacle : Obstacle::kNone;
  }

 private:
  Instant measurable_from_{};  // the end of a pause (pause_detector.h)
  bool measured_ = true;       // a round trip, since then
};

}  // namespace rocecoll
