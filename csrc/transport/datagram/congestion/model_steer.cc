// SPDX-License-Identifier: Apache-2.0
// What the model of a path means for what goes out: the pace, the bursts and the window.
#include <algorithm>
#include <cmath>

#include "transport/datagram/congestion/model.h"

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
// That the window takes beyond the path's: acknowledgements come in bursts, too.
constexpr double kBurstsAhead = 4;

}  // namespace

double ModelController::rate() const {
  const double best = delivery_rate();
  return bound_ > 0 ? std::min(best, bound_) : best;
}

// Less than in proportion, so that the smaller of two senders gains on the larger; in proportion
// where more and more is delivered.
double ModelController::up_gain() const {
  const double packets = std::max(path_bytes() / static_cast<double>(packet()), 1.0);
  const double share =
      std::sqrt(kWholePackets / packets) * std::pow(2.0, std::min(cycle_.rounds(), 8u));
  return 1 + (kUpGain - 1) * strength_.probes() * std::min(share, 1.0);
}

double ModelController::gain() const {
  switch (cycle_.phase()) {
    case Phase::kStartup:
      return kStartupGain;
    case Phase::kDrain:
      return kDrainGain;
    case Phase::kUp:
      return up_gain();
    case Phase::kDown:
      return kDownGain;
    case Phase::kCruise:
      return cycle_.goes_slower() ? kDownGain : 1;
    case Phase::kLookAtBase:
    case Phase::kContest:
      return 1;
  }
  return 1;
}

void ModelController::steer(Instant now) {
  if (delivery_rate() == 0) return;
  double paced = gain() * rate() * kMargin;
  double least = least_window();
  if (cycle_.phase() == Phase::kStartup) {
    // What little there was to send says nothing of what the path takes.
    least = std::max(least, static_cast<double>(kInitialWindow));
    paced = std::max(paced, kStartupGain * least / Seconds(rtts_.base()));
  }
  if (cycle_.phase() == Phase::kContest) {
    paced = kUpGain * contest_.window() / Seconds(rtts_.network());
  }
  const double burst = burst_bytes(rate(), strength_.bursts());
  sending_.set_burst_time(FromSeconds(burst / rate()));
  set_pace(now, paced, static_cast<uint64_t>(burst), catch_up_.bytes());
  const double window = std::min(window_of_phase(burst), flight_bound_.held());
  set_window(std::max(window, least));
}

double ModelController::window_of_phase(double burst) const {
  const double path = std::min(path_bytes(), flight_bound_.tried());
  switch (cycle_.phase()) {
    case Phase::kLookAtBase:
      return path / 2;
    case Phase::kContest:
      return contest_.window();
    case Phase::kDown:
    case Phase::kCruise:
      if (drain_window_ > 0) return drain_window_ + burst + rate() * Seconds(rtts_.host_delay());
      break;
    case Phase::kStartup:
    case Phase::kDrain:
    case Phase::kUp:
      break;
  }
  // Beyond what the path holds the less, the more is marked: with many senders on a short path it
  // is the windows that fill the queue. What waits at the peer's host for its process is in no
  // queue; its receive window bounds it.
  const double whole = cycle_.phase() == Phase::kStartup ? kStartupGain : kWindowGain;
  const double of_hosts = rate() * Seconds(rtts_.host_delay() + 2 * rtts_.busy_time()) +
                          (kBurstsAhead - (kBurstsAhead - 1) * marks_.value()) * burst;
  return (whole - (whole - 1) * marks_.value()) * path + of_hosts;
}

}  // namespace rocecoll
