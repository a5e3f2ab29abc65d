// SPDX-License-Identifier: Apache-2.0
// What all connections to one peer process share: round-trip time, congestion window, size of
// datagrams, and when the peer was last heard. Sans-IO.
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
  // What carries packets now delivers none that has changed on its way (DatagramPort).
  bool carrier_checks = false;
  Instant last_heard{};
  Instant last_ping{};   // a heartbeat on any of its connections
  Instant vouched_at{};  // another network brought something that the peer's process has sent
  // The latest word of the network that the peer cannot be reached.
  Obstacle obstacle = Obstacle::kNone;
  Instant obstacle_at{};
  Instant lost_at{};  // the last time that a packet was found lost

  // This process did not run for so long: the peer was not silent in that time.
  void on_pause(Instant now, Duration length) {
    if (std::exchange(measured_, false)) measurable_from_ = now;
    if (ever_heard()) last_heard += length;
    last_ping += length;
    vouched_at += length;
    obstacle_at += length;
  }
  // The round trip of what was sent before a pause contains it and says nothing of the path. But
  // where none was measured since the pause before, pauses are part of all of them: what is never
  // measured stays as short as it once was, and probes of all who wait keep a host busy that
  // answers late because it is.
  bool measurable(Instant sent_at) const { return sent_at >= measurable_from_; }
  void on_measured() { measured_ = true; }
  // Lately, so that it is likely to again.
  static constexpr Duration kLossLasts = std::chrono::seconds(1);
  bool loses(Instant now) const { return lost_at != Instant{} && now < lost_at + kLossLasts; }
  bool ever_heard() const { return last_heard != Instant{}; }
  // What stands in the way as far as anybody said; kNone once the peer has been heard for a while
  // since. Where only the way there is obstructed, it is heard all the time.
  static constexpr Duration kObstacleLasts = std::chrono::seconds(2);
  Obstacle current_obstacle() const {
    return obstacle_at + kObstacleLasts > last_heard ? obstacle : Obstacle::kNone;
  }

 private:
  Instant measurable_from_{};  // the end of a pause (pause_detector.h)
  bool measured_ = true;       // since then
};

}  // namespace rocecoll
