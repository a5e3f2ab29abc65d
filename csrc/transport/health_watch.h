// SPDX-License-Identifier: Apache-2.0
// Decides when to ask a device for its health, which costs a system call, and tells whether the
// health has changed.
#pragma once

#include <utility>

#include "base/status.h"
#include "base/time.h"

namespace rocecoll {

class HealthWatch {
 public:
  explicit HealthWatch(Duration interval) : interval_(interval) {}

  // The result of the last look; ok before the first.
  const Status& health() const { return health_; }
  bool due(Instant now) const { return now >= next_at_; }
  // Makes the next look due at once: something has happened since the last one.
  void hurry() { next_at_ = {}; }
  // True if the device has stopped or started to work.
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
