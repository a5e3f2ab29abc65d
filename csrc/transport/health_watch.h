// SPDX-License-Identifier: Apache-2.0
// When to ask a device for its health, which costs a system call, and whether that has changed.
#pragma once

#include <utility>

#include "base/status.h"
#include "base/time.h"

namespace rocecoll {

class HealthWatch {
 public:
  explicit HealthWatch(Duration interval) : interval_(interval) {}

  // As of the last look; ok before the first.
  const Status& health() const { return health_; }
  bool due(Instant now) const { return now >= next_at_; }
  // Be due at once: something has happened while nobody looked.
  void hurry() { next_at_ = {}; }
  // True if what worked does not, or the other way round.
  bool look(Instant now, Status health) {
    next_at_ = now + interval_;
    const bool changed = health.ok() != health_.ok();
    health_ = std::move(health);
    return changed;
  }

 private:
  const Duration interval_;
  Instant next_at_{};
  Status health_;
};

}  // namespace rocecoll
