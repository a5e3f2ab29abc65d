// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "transport/datagram/congestion/loss_response.h"

namespace rocecoll {

// The phase that a sender is in, and for how many rounds: the state machine of
// draft-ietf-ccwg-bbr-06 section 5.1, where kUp, kDown and kCruise are ProbeBW and kLookAtBase is
// ProbeRTT. The draft has no kContest (contest.h).
class Cycle {
 public:
  enum class Phase : uint8_t { kStartup, kDrain, kUp, kDown, kCruise, kLookAtBase, kContest };

  // `doubtful`: loss that counts as random might be a policer's, so that some cruises go slower to
  // see what it is.
  void enter(Phase phase, bool doubtful) {
    if (phase_ == Phase::kUp || phase_ == Phase::kStartup) calm_rounds_ = 0;
    phase_ = phase;
    rounds_ = 0;
    slower_ = phase == Phase::kCruise && doubtful && ++doubtful_cruises_ % kCruisesToSlower == 0;
  }
  void end_round() {
    ++rounds_;
    ++calm_rounds_;
  }

  Phase phase() const { return phase_; }
  // Ended in this phase.
  uint32_t rounds() const { return rounds_; }
  // Ended since the last probe, and whether what that one lost may still show.
  uint32_t calm_rounds() const { return calm_rounds_; }
  bool shows_probe() const { return calm_rounds_ < kLossShows; }
  // Whether this is a part of a cruise that goes slower, and whether all losses of the round that
  // has ended are from that part.
  bool goes_slower() const { return slower_ && rounds_ >= kSlowerFrom; }
  bool shows_slower() const { return slower_ && rounds_ >= kSlowerFrom + kLossShows; }

 private:
  // One doubtful cruise in this many goes slower, which costs 1 % of the rate (policer_test, and
  // bottleneck_test's FiveInHundredLost).
  static constexpr uint32_t kCruisesToSlower = 8;
  // The first rounds of such a cruise are still at the full rate (policer_test).
  static constexpr uint32_t kSlowerFrom = 2;

  Phase phase_ = Phase::kStartup;
  uint32_t rounds_ = 0;
  uint32_t calm_rounds_ = 0;
  uint32_t doubtful_cruises_ = 0;
  bool slower_ = false;
};

}  // namespace rocecoll
