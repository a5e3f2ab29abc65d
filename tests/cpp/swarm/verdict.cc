// SPDX-License-Identifier: Apache-2.0
#include "swarm/verdict.h"

#include <algorithm>
#include <cstdlib>

#include "swarm/swarm_cluster.h"

namespace rocecoll {
namespace {

using Kind = SwarmFault::Kind;

// A rank may have heard nothing for about two heartbeats when the fault begins, and one more when
// it ends.
constexpr Duration kSlack = std::chrono::milliseconds(1600);
// For notices and the news of closing links, where nothing is in their way.
constexpr Duration kTelling = std::chrono::seconds(3);

constexpr std::string_view kUnknown = "it does not know this connection";

bool Silences(const SwarmFault& fault, Rank from, Rank to) {
  switch (fault.kind) {
    case Kind::kPause:
      return Contains(fault.from, from) || Contains(fault.from, to);
    case Kind::kCut:
      return Contains(fault.from, from) && Contains(fault.to, to);
    case Kind::kRefuse:
      return Contains(fault.from, from);
    default:
      return false;
  }
}

std::optional<Rank> RankBehind(const std::string& text, std::string_view words, size_t end) {
  const size_t at = text.rfind(words, end);
  if (at == std::string::npos) return std::nullopt;
  return static_cast<Rank>(std::strtoul(text.c_str() + at + words.size(), nullptr, 10));
}

}  // namespace

std::optional<Blame> ParseBlame(Rank self, const std::string& message) {
  const auto lost = RankBehind(message, "lost rank ", std::string::npos);
  if (!lost) return std::nullopt;
  Blame blame{self, *lost};
  const size_t reported = message.find(" reported: ");
  if (reported == std::string::npos) return blame;
  const auto observer = RankBehind(message, "rank ", reported);
  if (!observer) return std::nullopt;
  blame.observer = *observer;
  return blame;
}

std::string Verdicts::objection(Rank rank, const Status& failure, Instant at,
                                const std::function<bool(Rank)>& had_failed) const {
  const std::string said =
      "rank " + std::to_string(rank) + " failed at " + std::to_string(Seconds(at - Instant())) +
      " s: " + std::string(ToString(failure.code())) + ", " + failure.message();
  if (failure.code() != StatusCode::kPeerLost) return said + " -- but nothing else may end a group";
  const auto blame = ParseBlame(rank, failure.message());
  if (!blame) return said + " -- which names nobody";
  if (may_lose(blame->observer, blame->lost, at)) return {};
  // A link that has failed tells why for a while only. Who comes later learns that much.
  if (failure.message().find(kUnknown) != std::string::npos && had_failed(blame->lost)) return {};
  return said + " -- but rank " + std::to_string(blame->lost) + " was within reach of rank " +
         std::to_string(blame->observer);
}

bool Verdicts::may_lose(Rank a, Rank b, Instant at) const {
  for (const SwarmFault& fault : plan_.faults) {
    const bool kills = fault.kind == Kind::kKill || fault.kind == Kind::kRestart;
    const bool one_of_them = Contains(fault.from, a) || Contains(fault.from, b);
    if (kills && one_of_them && at >= Instant(fault.at)) return true;
  }
  const Duration needed = plan_.connection.peer_timeout - kSlack;
  return longest_silence(a, b, at) >= needed || longest_silence(b, a, at) >= needed;
}

Duration Verdicts::longest_silence(Rank from, Rank to, Instant until) const {
  std::vector<Interval> silences;
  for (const SwarmFault& fault : plan_.faults) {
    const Instant begin(fault.at);
    if (!Silences(fault, from, to) || begin > until) continue;
    silences.push_back({begin, std::min(begin + fault.length, until)});
  }
  std::ranges::sort(silences, {}, &Interval::begin);
  Duration longest{0};
  Interval whole{};
  for (const Interval& silence : silences) {
    // What gets through in a short gap may well be lost.
    if (silence.begin > whole.end + kSlack) whole = silence;
    whole.end = std::max(whole.end, silence.end);
    longest = std::max(longest, whole.end - whole.begin);
  }
  return longest;
}

Instant Verdicts::quiet_after(Instant from) const {
  Instant quiet = from;
  for (bool changed = true; changed;) {
    changed = false;
    for (const SwarmFault& fault : plan_.faults) {
      const Instant begin(fault.at);
      if (fault.kind == Kind::kKill || begin > quiet + kTelling) continue;
      if (begin + fault.length <= quiet) continue;
      quiet = begin + fault.length;
      changed = true;
    }
  }
  return quiet + kTelling;
}

}  // namespace rocecoll
