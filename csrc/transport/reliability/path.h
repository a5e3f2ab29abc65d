// SPDX-License-Identifier: Apache-2.0
// What all connections to one peer process share: round-trip time, congestion window, and
// when the peer was last heard. Sans-IO.
#pragma once

#include "base/time.h"
#include "transport/reliability/congestion.h"
#include "transport/reliability/rtt_estimator.h"

namespace rocecoll {

struct Path {
  explicit Path(uint64_t max_window_bytes, bool steered = true)
      : congestion(max_window_bytes, steered) {}

  RttEstimator rtt;
  CongestionController congestion;
  Instant last_heard{};
  Instant last_ping{};  // a heartbeat on any of its connections
};

}  // namespace rocecoll
