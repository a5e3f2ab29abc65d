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
// that says so. LOST may be one that was never met.
struct Blame {
  Rank observer = 0;
  Rank lost = 0;
};

class Verdicts {
 public:
  explicit Verdicts(const SwarmPlan& plan) : plan_(plan) {}

  // What the plan says against this: empty if it may be.
  std::string objection(Rank rank, const Status& failure, Instant at) const;
  // When what happened at `from` has reached everybody, whatever faults lie in between.
  Instant quiet_after(Instant from) const;

 private:
  // `lost` had been killed, or the observer could not hear it for as long as makes a death.
  bool may_lose(const Blame& blame, Instant at) const;
  // The longest time, as `to` counts it, in which nothing of `from` could reach it.
  Duration longest_silence(Rank from, Rank to, Instant until) const;
  bool any(Instant at, const std::function<bool(const SwarmFault&)>& matches) const {
    return std::ranges::any_of(plan_.faults, [&](const SwarmFault& fault) {
      return Instant(fault.at) <= at && at < Instant(fault.at + fault.length) && matches(fault);
    });
  }

  const SwarmPlan& plan_;
};

namespace swarm {

// A rank may have heard nothing for about two heartbeats when the fault begins, and one more when
// it ends.
inline constexpr Duration kSlack = std::chrono::milliseconds(1600);
// What a rank may count of a pause of its own: it notices one by missing a deadline by 250 ms, and
// has one every heartbeat.
inline constexpr Duration kCountedOfPause = std::chrono::milliseconds(750);
// For notices and the news of closing links, where nothing is in their way.
inline constexpr Duration kTelling = std::chrono::seconds(3);

inline constexpr std::string_view kUnknown = "it does not know this connection";

inline bool Silences(const SwarmFault& fault, Rank from, Rank to) {
  switch (fault.kind) {
    case SwarmFault::Kind::kPause:
    case SwarmFault::Kind::kRefuse:
      return Contains(fault.from, from);
    case SwarmFault::Kind::kCut:
      return Contains(fault.from, from) && Contains(fault.to, to);
    default:
      return false;
  }
}

inline std::optional<Rank> RankBehind(const std::string& text, std::string_view words, size_t end) {
  const size_t at = text.rfind(words, end);
  if (at == std::string::npos) return std::nullopt;
  return static_cast<Rank>(std::strtoul(text.c_str() + at + words.size(), nullptr, 10));
}

inline std::optional<Blame> ParseBlame(Rank self, const std::string& message) {
  const size_t met = message.find(": its address is known");
  const auto lost = met == std::string::npos ? RankBehind(message, "lost rank ", std::string::npos)
                                             : RankBehind(message, "rank ", met);
  if (!lost) return std::nullopt;
  Blame blame{self, *lost};
  const size_t reported = message.find(" reported: ");
  if (reported == std::string::npos) return blame;
  const auto observer = RankBehind(message, "rank ", reported);
  if (!observer) return std::nullopt;
  blame.observer = *observer;
  return blame;
}

}  // namespace swarm

inline std::string Verdicts::objection(Rank rank, const Status& failure, Instant at) const {
  const std::string said =
      "rank " + std::to_string(rank) + " failed at " + std::to_string(Seconds(at - Instant())) +
      " s: " + std::string(ToString(failure.code())) + ", " + failure.message();
  if (failure.code() != StatusCode::kPeerLost && failure.code() != StatusCode::kNoContact) {
    return said + " -- but nothing else may end a group";
  }
  const auto blame = swarm::ParseBlame(rank, failure.message());
  if (!blame) return said + " -- which names nobody";
  if (may_lose(*blame, at)) return {};
  // Contact needs both ways: who has nothing to say yet only answers. And who was away so long that
  // the others gave it up finds that they do not know it any more.
  const bool contact = failure.code() == StatusCode::kNoContact;
  const bool unknown = failure.message().find(swarm::kUnknown) != std::string::npos;
  if ((contact || unknown) && may_lose({blame->lost, blame->observer}, at)) return {};
  return said + " -- but rank " + std::to_string(blame->lost) + " was within reach of rank " +
         std::to_string(blame->observer);
}

inline bool Verdicts::may_lose(const Blame& blame, Instant at) const {
  for (const SwarmFault& fault : plan_.faults) {
    const bool kills =
        fault.kind == SwarmFault::Kind::kKill || fault.kind == SwarmFault::Kind::kRestart;
    if (kills && Contains(fault.from, blame.lost) && at >= Instant(fault.at)) return true;
  }
  return longest_silence(blame.lost, blame.observer, at) >=
         plan_.connection.peer_timeout - swarm::kSlack;
}

inline Duration Verdicts::longest_silence(Rank from, Rank to, Instant until) const {
  std::vector<Instant> changes{until};
  for (const SwarmFault& fault : plan_.faults) {
    changes.push_back(std::min(Instant(fault.at), until));
    changes.push_back(std::min(Instant(fault.at + fault.length), until));
  }
  std::ranges::sort(changes);
  Duration longest{0};
  Duration silence{0};
  Duration gap = swarm::kSlack;  // since the last of it
  for (size_t i = 0; i + 1 < changes.size(); ++i) {
    const Duration length = changes[i + 1] - changes[i];
    if (any(changes[i], [&](const SwarmFault& fault) {
          return fault.kind == SwarmFault::Kind::kPause && Contains(fault.from, to);
        })) {
      silence += std::min(length, swarm::kCountedOfPause);
    } else if (any(changes[i],
                   [&](const SwarmFault& fault) { return swarm::Silences(fault, from, to); })) {
      // What got through in a short gap may well have been lost.
      silence = gap < swarm::kSlack ? silence + gap + length : length;
      gap = Duration{0};
    } else {
      gap += length;
    }
    longest = std::max(longest, silence);
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
