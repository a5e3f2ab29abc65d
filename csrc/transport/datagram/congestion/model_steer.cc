// SPDX-License-Identifier: Apache-2.0
// Derives the pace, the bursts and the window from the model of a path.
#include <algorithm>
#include <cmath>

#include "transport/datagram/congestion/model.h"

namespace rocecoll {
namespace {

// Gains of the pacing rate. The draft: sections 2.5, 5.3.2 and 5.6.1; kDownGain is that of ACM
// Queue 2016.
constexpr double kStartupGain = 2.77;
constexpr double kDrainGain = 0.5;
constexpr double kUpGain = 1.25;
constexpr double kDownGain = 0.75;
// Of the window over what the path holds: BBR.DefaultCwndGain (the draft, section 2.6). In startup
// it is kStartupGain.
constexpr double kWindowGain = 2;
// The window while the sender looks at the empty round trip: BBR.ProbeRTTCwndGain (the draft,
// section 2.16.2).
constexpr double kLookGain = 0.5;
// A probe has its whole strength from the start where the path holds up to this many packets, and
// less where it holds more, by the square root (bottleneck_test).
constexpr double kWholePackets = 16;
// Rounds in which such a probe doubles: enough for a path that holds a million packets.
constexpr uint32_t kMostDoublings = 8;
// Bursts in the window beyond what the path holds, since acknowledgements come in bursts, too
// (bottleneck_test). Where everything is marked, one is left.
constexpr double kBurstsAhead = 4;

}  // namespace

double ModelController::rate() const {
  const double best = delivery_rate();
  return bound_ > 0 ? std::min(best, bound_) : best;
}

// The larger of two senders probes with a smaller gain, so that the smaller one catches up. The
// gain doubles each round as long as the path delivers more and more.
double ModelController::up_gain() const {
  const double packets = std::max(path_bytes() / static_cast<double>(packet()), 1.0);
  const double share =
      std::sqrt(kWholePackets / packets) * std::pow(2.0, std::min(cycle_.rounds(), kMostDoublings));
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
    // A program that has sent little has not measured what the path takes.
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
      return kLookGain * path;
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
  // The more is marked, the less the window has beyond what the path holds: with many senders on a
  // short path it is the windows that fill the queue. What waits at the peer's host for its process
  // is in no queue; the peer's receive window bounds it.
  const double whole = cycle_.phase() == Phase::kStartup ? kStartupGain : kWindowGain;
  const double of_hosts = rate() * Seconds(rtts_.host_delay() + 2 * rtts_.busy_time()) +
                          (kBurstsAhead - (kBurstsAhead - 1) * marks_.value()) * burst;
  return (whole - (whole - 1) * marks_.value()) * path + of_hosts;
}

}  // namespace rocecoll
