// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "base/check.h"
#include "base/time.h"
#include "transport/datagram/reliability/rtt_estimator.h"

namespace rocecoll {

// When silence after the last packet calls for a probe, so that the loss of a tail is noticed (RFC
// 8985 section 7.2, RFC 9002 section 6.2): once an answer is overdue, then after times that double
// up to a cap, so that a path that comes back is noticed soon. Being wrong costs a packet, being
// late stalls whoever waits: a lost tail that is noticed after 2 ms costs as much as 500 KiB sent.
class ProbeTimeout {
 public:
  struct Limits {
    Duration floor;  // timers of a process that sleeps are not much finer
    Duration cap;    // of the back-off; a round trip that is longer counts all the same
    Duration max_ack_delay;
  };

  explicit ProbeTimeout(const Limits& limits) : limits_(limits) {
    ROCECOLL_CHECK(limits.floor > Duration{0});
    ROCECOLL_CHECK(limits.cap >= limits.floor);
  }

  // `asked`: the last packet asks for an acknowledgement at once, as all probes do.
  Duration period(const RttEstimator& rtt, bool asked) const {
    const Duration wait = asked || fired_ > 0 ? Duration{0} : limits_.max_ack_delay;
    const Duration base = std::max(rtt.answer_timeout(), limits_.floor) + wait;
    return std::min(base * (int64_t{1} << std::min(fired_, kMaxDoublings)),
                    std::max(limits_.cap, base));
  }
  // `last_sent`: of the packets in flight.
  Instant deadline(Instant last_sent, const RttEstimator& rtt, bool asked) const {
    return std::max(last_sent, last_fired_) + period(rtt, asked);
  }
  void on_fired(Instant now) {
    ROCECOLL_CHECK(now >= last_fired_);
    last_fired_ = now;
    ++fired_;
  }
  // The tail-loss probe has been in vain. A second one beside the first is worth it: under heavy
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
