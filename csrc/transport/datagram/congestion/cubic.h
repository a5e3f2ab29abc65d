// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "base/time.h"
#include "transport/datagram/congestion/congestion_controller.h"

namespace rocecoll {

// CUBIC (RFC 9438), for comparison and for networks whose other traffic is TCP's. Every loss counts
// as a full queue and is answered once a round trip.
//
// Sending is paced (RFC 9002 section 7.7), marks count as losses that cost less (RFC 8511), and
// windows are in bytes, not segments. An outage costs one cut, as any loss does. A path that was
// silent keeps its window: the pace bounds what goes out then.
class CubicController final : public CongestionController {
 public:
  explicit CubicController(uint64_t max_window_bytes)
      : CongestionController(max_window_bytes, kInitialWindow) {}

  void on_held_back(Instant now) override;
  void on_marked(uint64_t packets) override { marked_ = marked_ || packets > 0; }
  void restart(Instant now) override;
  void take_timing(Instant now, const Timing& timing) override;
  void end_acknowledgement(Instant now, Instant arrived_at,
                           const std::optional<Timing>& timing) override;

 private:
  SendStamp take_sent(Instant now, uint64_t bytes) override;
  void take_acked(uint64_t bytes, Instant sent_at, const SendStamp& stamp) override;
  void take_lost(Instant now, uint64_t bytes, Instant sent_at) override;
  // Cuts once for everything that was sent before the last cut.
  void cut(Instant now, Instant sent_at, double kept);
  void grow(Instant now);
  // W_cubic, `seconds` after the last cut.
  double cubic_window(double seconds) const;
  bool in_slow_start() const { return window_bytes_ < threshold_; }

  double window_bytes_ = static_cast<double>(kInitialWindow);
  double threshold_ = static_cast<double>(kMaxWindow);  // ssthresh, and cwnd_epoch
  double most_ = 0;                                     // W_max
  double before_cut_ = 0;                               // cwnd_prior
  double reno_ = 0;                                     // W_est
  Instant grows_since_ = kNever;                        // the epoch's beginning
  Instant cut_at_{};
  Duration round_trip_{};  // smoothed, with what the peer's host adds; zero before the first
  // Of the acknowledgement that is being read; lost_ counts since the previous one.
  uint64_t acked_ = 0;
  uint64_t lost_ = 0;
  Instant newest_at_{};
  bool marked_ = false;

  Instant held_back_at_{};
  bool waited_ = false;  // the next packet has, for the pacer
  Instant active_at_{};  // the last acknowledgement, or the first packet after silence
};

}  // namespace rocecoll
