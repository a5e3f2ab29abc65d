// SPDX-License-Identifier: Apache-2.0
// What the model of a path means for what goes out: the pace, the bursts and the window.
#include <algorithm>
#include <cmath>

#include "transport/reliability/congestion.h"

namespace rocecoll {
namespace {

// draft-ietf-ccwg-bbr section 2: gains of the pacing rate, and of the window over what the path
// holds.
constexpr double kStartupGain = 2.77;
constexpr double kDrainGain = 0.5;
constexpr double kUpGain = 1.25;
constexpr double kDownGain = 0.75;
constexpr double kWindowGain = 2;
// A path that holds fewer packets of ours is probed in proportion.
constexpr double kWholePackets = 16;
constexpr Duration kBurstTime = std::chrono::microseconds(50);
constexpr double kLeastRate = 100'000;  // bytes per second, so that no timer stands still
constexpr double kMaxBurstBytes = CatchUp::kLeast;
constexpr double kBurstPackets = 2;
// That the window takes beyond the path's: acknowledgements come in bursts, too.
constexpr double kBurstsAhead = 4;

}  // namespace

// Less than in proportion, so that the smaller of two senders gains on the larger; in proportion
// where more and more is delivered.
double CongestionController::up_gain() const {
  const double packets = std::max(path_bytes() / static_cast<double>(packet_), 1.0);
  const double share =
      std::sqrt(kWholePackets / packets) * std::pow(2.0, std::min(rounds_in_phase_, 8u));
  return 1 + (kUpGain - 1) * probe_ * std::min(share, 1.0);
}

double CongestionController::gain() const {
  switch (phase_) {
    case Phase::kStartup:
      return kStartupGain;
    case Phase::kDrain:
      return kDrainGain;
    case Phase::kUp:
      return up_gain();
    case Phase::kDown:
      return kDownGain;
    case Phase::kCruise:
    case Phase::kLookAtBase:
    case Phase::kContest:
      return 1;
  }
  return 1;
}

void CongestionController::steer(Instant now) {
  if (delivery_rate() == 0) return;
  double paced = std::max(gain() * rate() * kMargin, kLeastRate);
  auto least_window = static_cast<double>(kLeastPackets * packet_);
  if (phase_ == Phase::kStartup) {
    // What little there was to send says nothing of what the path takes.
    least_window = std::max(least_window, static_cast<double>(kInitialWindow));
    paced = std::max(paced, kStartupGain * least_window / Seconds(base_rtt_));
  }
  if (phase_ == Phase::kContest) {
    paced = std::max(kUpGain * contest_window_ / Seconds(network_rtt_), kLeastRate);
  }
  if (breaker_.bound() > 0) paced = std::min(paced, std::max(breaker_.bound(), kLeastRate));
  const auto packet = static_cast<double>(packet_);
  const double burst = std::clamp(rate() * Seconds(kBurstTime) * std::min(probe_, burst_share_),
                                  kBurstPackets * packet, kMaxBurstBytes);
  burst_time_ = FromSeconds(burst / rate());
  pacer_.set_rate(now, paced, static_cast<uint64_t>(burst), catch_up_.bytes());
  const double path = path_bytes();
  // Beyond what the path holds the less, the more is marked: with many senders on a short path it
  // is the windows that fill the queue.
  const double whole = phase_ == Phase::kStartup ? kStartupGain : kWindowGain;
  double window = (whole - (whole - 1) * marks_.value()) * path;
  if (phase_ == Phase::kLookAtBase) {
    window = path / 2;
  } else if (phase_ == Phase::kContest) {
    window = contest_window_;
  } else if (drain_window_ > 0 && (phase_ == Phase::kDown || phase_ == Phase::kCruise)) {
    window = drain_window_ + burst + rate() * Seconds(host_delay_);
  } else {
    // What waits at the peer's host for its process is in no queue; its receive window bounds it.
    window += rate() * Seconds(host_delay_ + 2 * busy_time_) +
              (kBurstsAhead - (kBurstsAhead - 1) * marks_.value()) * burst;
  }
  window = std::max(window, least_window);
  window_ = std::min(max_window_, static_cast<uint64_t>(window));
}

}  // namespace rocecoll
