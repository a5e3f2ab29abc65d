// SPDX-License-Identifier: Apache-2.0
// Who may be blamed for what: from the faults of a plan, which ranks could not hear each other.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
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

namespace swarm {

// A rank may have heard nothing for about two heartbeats when the fault begins, and one more when
// it ends.
inline constexpr Duration kSlack = std::chrono::milliseconds(1600);
// For notices and the news of closing links, where nothing is in their way.
inline constexpr Duration kTelling = std::chrono::seconds(3);

inline constexpr std::string_view kUnknown = "it does not know this connection";

inline bool Silences(const SwarmFault& fault, Rank from, Rank to) {
  switch (fault.kind) {
    case SwarmFault::Kind::kPause:
      return Contains(fault.from, from) || Contains(fault.from, to);
    case SwarmFault::Kind::kCut:
      return Contains(fault.from, from) && Contains(fault.to, to);
    case SwarmFault::Kind::kRefuse:
      return Contains(fault.from, from);
    default:
      return false;
  }
}

inline std::optional<Rank> RankBehind(const std::string& text, std::string_view words, size_t end) {
  const size_t at = text.rfind(words, end);
  if (at == std::string::npos) return std::nullopt;
  return static_cast<Rank>(std::strtoul(text.c_str() + at + words.size(), nullptr, 10));
}

}  // namespace swarm

inline std::optional<Blame> ParseBlame(Rank self, const std::string& message) {
  const auto lost = swarm::RankBehind(message, "lost rank ", std::string::npos);
  if (!lost) return std::nullopt;
  Blame blame{self, *lost};
  const size_t reported = message.find(" reported: ");
  if (reported == std::string::npos) return blame;
  const auto observer = swarm::RankBehind(message, "rank ", reported);
  if (!observer) return std::nullopt;
  blame.observer = *observer;
  return blame;
}

inline std::string Verdicts::objection(Rank rank, const Status& failure, Instant at,
                                       const std::function<bool(Rank)>& had_failed) const {
  const std::string said =
      "rank " + std::to_string(rank) + " failed at " + std::to_string(Seconds(at - Instant())) +
      " s: " + std::string(ToString(failure.code())) + ", " + failure.message();
  if (failure.code() != StatusCode::kPeerLost) return said + " -- but nothing else may end a group";
  const auto blame = ParseBlame(rank, failure.message());
  if (!blame) return said + " -- which names nobody";
  if (may_lose(blame->observer, blame->lost, at)) return {};
  // A link that has failed tells why for a while only. Who comes later learns that much.
  if (failure.message().find(swarm::kUnknown) != std::string::npos && had_failed(blame->lost))
    return {};
  return said + " -- but rank " + std::to_string(blame->lost) + " was within reach of rank " +
         std::to_string(blame->observer);
}

inline bool Verdicts::may_lose(Rank a, Rank b, Instant at) const {
  for (const SwarmFault& fault : plan_.faults) {
    const bool kills =
        fault.kind == SwarmFault::Kind::kKill || fault.kind == SwarmFault::Kind::kRestart;
    const bool one_of_them = Contains(fault.from, a) || Contains(fault.from, b);
    if (kills && one_of_them && at >= Instant(fault.at)) return true;
  }
  const Duration needed = plan_.connection.peer_timeout - swarm::kSlack;
  return longest_silence(a, b, at) >= needed || longest_silence(b, a, at) >= needed;
}

inline Duration Verdicts::longest_silence(Rank from, Rank to, Instant until) const {
  std::vector<Interval> silences;
  for (const SwarmFault& fault : plan_.faults) {
    const Instant begin(fault.at);
    if (!swarm::Silences(fault, from, to) || begin > until) continue;
    silences.push_back({begin, std::min(begin + fault.length, until)});
  }
  std::ranges::sort(silences, {}, &Interval::begin);
  Duration longest{0};
  Interval whole{};
  for (const Interval& silence : silences) {
    // What gets through in a short gap may well be lost.
    if (silence.begin > whole.end + swarm::kSlack) whole = silence;
    whole.end = std::max(whole.end, silence.end);
    longest = std::max(longest, whole.end - whole.begin);
  }
  return longest;
}

inline Instant Verdicts::quiet_after(Instant from) const {
  Instant quiet = from;
  for (bool changed = true; changed;) {
    changed = false;
    for (const SwarmFault& fault : plan_.faults) {
      const Instant begin(fault.at);
      if (fault.kind == SwarmFault::Kind::kKill || begin > quiet + swarm::kTelling) continue;
      if (begin + fault.length <= quiet) continue;
      quiet = begin + fault.length;
      changed = true;
    }
  }
  return quiet + swarm::kTelling;
}

}  // namespace rocecoll
