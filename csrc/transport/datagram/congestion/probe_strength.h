// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "transport/datagram/congestion/loss_response.h"

namespace rocecoll {

// How strong probes and bursts may be, from 1 down to a sixteenth: as strong as the queue of a path
// can take. The numbers were chosen with bottleneck_test.
class ProbeStrength {
 public:
  double probes() const { return probes_; }
  // Weaker than probes while there are marks outside of probes.
  double bursts() const { return std::min(probes_, bursts_); }
  void on_probe() {
    probes_ = std::min(1.0, probes_ * kGrowth);
    bursts_ = std::min(1.0, bursts_ * kGrowth);
  }
  void on_overflow() { probes_ = std::max(kLeast, probes_ * kLossKept); }
  // `kept`: MarkShare::kept().
  void on_marks(double kept) { bursts_ = std::max(kLeast, bursts_ * kept); }

 private:
  static constexpr double kLeast = 1.0 / 16;
  static constexpr double kGrowth = 1.05;
  double probes_ = 1;
  double bursts_ = 1;
};

}  // namespace rocecoll
