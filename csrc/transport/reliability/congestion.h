// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/time.h"
#include "transport/reliability/loss_tolerance.h"
#include "transport/reliability/pacer.h"
#include "transport/reliability/rtt_estimator.h"

namespace rocecoll {

// How many bytes may be in flight on a path, and how fast they go out.
//
// Once a round trip the window follows what was seen in it:
// - No queue: it grows, by half until the first sign of congestion (slow start, RFC 9002 section
//   7.3.1), afterwards the faster the longer nothing has been lost.
// - A queue: it moves to where this sender's own part of the queue is a certain number of bytes
//   (FAST TCP, Wei et al. 2006, section III; Copa, NSDI 2018). All senders of a bottleneck see the
//   same delay, so they end at the same rate, and no buffer has to overflow for it.
// - A queue that does not shrink although the window did: others fill it. It then competes as TCP
//   does (Copa's competitive mode): grows by a packet a round trip and is cut by every loss.
// - Loss beyond what LossTolerance forgives cuts it in every case, to no floor: below one packet
//   the pacer alone steers.
class CongestionController {
 public:
  // Ten packets of Ethernet (RFC 6928), more for larger packets.
  static constexpr uint64_t kInitialWindow = 16 * 1024;
  static constexpr uint64_t kInitialPackets = 4;
  static constexpr uint64_t kMaxWindow = 64 * 1024 * 1024;

  // Not `steered`: no network lies between, and the window is max_window_bytes for good, unpaced.
  // What looks like queueing on one host is a process that waits for a core.
  explicit CongestionController(uint64_t max_window_bytes, bool steered = true);

  uint64_t window() const { return static_cast<uint64_t>(window_); }
  uint64_t bytes_in_flight() const { return in_flight_; }
  bool has_room(uint64_t bytes) const { return in_flight_ + bytes <= window(); }
  // Whether the pacer lets the next packet go, and when it will.
  bool paced(Instant now) const { return pacer_.ready(now); }
  Instant release_at() const { return pacer_.release_at(); }
  double pacing_rate() const { return pacer_.rate(); }
  bool slow_start() const { return slow_start_; }
  bool contested() const { return contested_; }
  // The round trip of an empty path, as far as it was ever seen.
  Duration base_rtt() const { return base_rtt_; }

  void on_sent(Instant now, uint64_t bytes);
  // A packet that only probes the path's MTU: neither its size nor its loss says anything here.
  void on_probe_sent(uint64_t bytes) { in_flight_ += bytes; }
  // `rtt` has a new sample. Call before on_acked() for the packets acknowledged with it.
  void on_rtt_sample(Instant now, const RttEstimator& rtt);
  // A packet of `bytes` sent at `sent_at` was acknowledged.
  void on_acked(Instant now, uint64_t bytes, Instant sent_at, const RttEstimator& rtt);
  void on_lost(Instant now, uint64_t bytes, Instant sent_at, const RttEstimator& rtt);
  // A packet that was called lost was acknowledged.
  void on_found() { tolerance_.on_found(); }
  // Neither acknowledged nor lost: its connection is gone.
  void on_discarded(uint64_t bytes);

 private:
  static constexpr Duration kNoSample = Duration::max();
  struct Round {
    Instant began{};
    Duration least_rtt = kNoSample;
    Duration most_rtt{};
    uint32_t samples = 0;
    bool window_used = false;
  };

  void leave_flight(uint64_t bytes);
  Duration queueing(Duration rtt) const { return rtt - base_rtt_; }
  void end_round(Instant now);
  void drain(Duration queue);
  void compete();
  void grow();
  void leave_slow_start();
  Duration tolerated() const;
  void on_congestion_loss(Instant now);
  void learn_depth(Duration seen);
  void cut(Instant now, double kept);
  void set_window(double bytes);
  void pace(const RttEstimator& rtt);
  double packets() const { return window_ / packet_; }

  double max_window_;
  bool steered_;
  double window_;
  uint64_t in_flight_ = 0;
  double packet_ = 1;  // bytes of the largest
  bool slow_start_ = true;
  Pacer pacer_;
  LossTolerance tolerance_;

  Round round_;
  Duration base_rtt_ = kNoSample;
  Duration queue_{};       // least of the last round
  Duration most_queue_{};  // and most
  Duration depth_{};       // of the queue that overflows, as far as it is known
  Duration target_;        // queueing that is called none
  Instant last_cut_{};     // packets sent before it say nothing about the window after it
  double packets_since_cut_ = 0;

  bool draining_ = false;
  bool blind_ = false;   // the queue that overflows is too short to be seen
  uint32_t drains_ = 0;  // in a row, without the queue gone in between
  uint32_t quiet_rounds_ = 0;
  bool contested_ = false;
  uint32_t contested_rounds_ = 0;
};

}  // namespace rocecoll
