// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "base/check.h"
#include "base/time.h"
#include "transport/datagram/reliability/rtt_estimator.h"

namespace rocecoll {

// When silence after the last packet calls for a probe, so that the loss of the last packets is
// noticed (RFC 8985 section 7.2, RFC 9002 section 6.2): when an answer is overdue, then at
// intervals that double up to a cap, so that a path that comes back is noticed soon. A needless
// probe costs one packet, while a late one stalls everything that waits: noticing a lost tail after
// 2 ms costs as much as sending 500 KiB.
class ProbeTimeout {
 public:
  struct Limits {
    Duration floor;  // the timers of a sleeping process are not much finer
    Duration cap;    // of the back-off; a longer round trip still counts in full
    Duration max_ack_delay;
  };

  explicit ProbeTimeout(const Limits& limits) : limits_(limits) {
    ROCECOLL_CHECK(limits.floor > Duration{0});
    ROCECOLL_CHECK(limits.cap >= limits.floor);
  }

  // `asked`: the last packet asked for an immediate acknowledgement, as all probes do.
  Duration period(const RttEstimator& rtt, bool asked) const {
    const Duration wait = asked || fired_ > 0 ? Duration{0} : limits_.max_ack_delay;
    const Duration base = std::max(rtt.answer_timeout(), limits_.floor) + wait;
    return std::min(base * (int64_t{1} << std::min(fired_, kMaxDoublings)),
                    std::max(limits_.cap, base));
  }
  // `last_sent`: when the newest packet in flight was sent.
  Instant deadline(Instant last_sent, const RttEstimator& rtt, bool asked) const {
    return std::max(last_sent, last_fired_) + period(rtt, asked);
  }
  void on_fired(Instant now) {
    ROCECOLL_CHECK(now >= last_fired_);
    last_fired_ = now;
    ++fired_;
  }
  // Whether the tail-loss probe had no effect. It is then worth sending two at once: under heavy
  // loss both are rarely lost.
  bool in_vain() const { return fired_ > 1; }
  void on_progress() { fired_ = 0; }

 private:
  static constexpr uint32_t kMaxDoublings = 16;

  Limits limits_;
  uint32_t fired_ = 0;
  Instant last_fired_{};
};

}  // namespace rocecoll
