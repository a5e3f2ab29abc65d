// SPDX-License-Identifier: Apache-2.0
// Who may be blamed for what: from the faults of a plan, which ranks could not hear each other.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "swarm/swarm_plan.h"

namespace rocecoll {

// "rank OBSERVER reported: ... lost rank LOST", or without a report, where the observer is the rank
// that says so.
struct Blame {
  Rank observer = 0;
  Rank lost = 0;
};
std::optional<Blame> ParseBlame(Rank self, const std::string& message);

class Verdicts {
 public:
  explicit Verdicts(const SwarmPlan& plan) : plan_(plan) {}

  // What the plan says against this: empty if it may be. `had_failed`: whether that rank's group
  // had failed before.
  std::string objection(Rank rank, const Status& failure, Instant at,
                        const std::function<bool(Rank)>& had_failed) const;
  // One of the two has been killed, or could not hear the other for as long as makes a death.
  bool may_lose(Rank a, Rank b, Instant at) const;
  // When what happened at `from` has reached everybody, whatever faults lie in between.
  Instant quiet_after(Instant from) const;

 private:
  struct Interval {
    Instant begin;
    Instant end;
  };
  // The longest time without a break in which nothing of `from` could reach `to`.
  Duration longest_silence(Rank from, Rank to, Instant until) const;

  const SwarmPlan& plan_;
};

}  // namespace rocecoll
