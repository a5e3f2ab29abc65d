// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>

#include "base/time.h"
#include "transport/reliability/path.h"

namespace rocecoll {

// Whether the peer lives: a ping after a silence, death after a longer one, and soon when the
// network hints that nobody listens there. Being heard on any connection of the path counts. While
// connecting the INITs are the pings: a process that lives answers them in one way or another.
class Liveness {
 public:
  struct Limits {
    Duration heartbeat_interval;
    Duration peer_timeout;
  };
  // First contact takes at least this long: the peer's process may just have started.
  static constexpr Duration kLeastForContact = std::chrono::seconds(3);
  static constexpr uint32_t kHintProbes = 3;
  static constexpr Duration kHintProbeInterval = std::chrono::milliseconds(10);
  // After these silences since the first hint the peer is dead. A hint may be forged or stale, so
  // death takes another one, or a silence that no live host's scheduler explains.
  static constexpr Duration kRepeatedHintSilence = std::chrono::milliseconds(30);
  static constexpr Duration kSingleHintSilence = std::chrono::milliseconds(300);

  Liveness(const Limits& limits, Instant now) : limits_(limits), since_(now) {}

  void on_established(Instant now) {
    established_ = true;
    since_ = now;
  }
  void on_hint(Instant now, const Path& path);
  // As Path::on_pause().
  void on_pause(Duration length);

  enum class Verdict : uint8_t { kQuiet, kProbe, kSilent, kUnreachable };
  // Advances; call at deadline(). After kProbe a probe must be sent.
  Verdict check(Instant now, Path& path);
  Instant deadline(const Path& path) const;
  // The peer was last heard then, or is waited for since.
  Instant heard_at(const Path& path) const { return std::max(path.last_heard, since_); }
  // The silence that is death.
  Duration longest_silence() const {
    return established_ ? limits_.peer_timeout : std::max(limits_.peer_timeout, kLeastForContact);
  }

 private:
  bool hinted(const Path& path) const { return hinted_at_ && path.last_heard <= *hinted_at_; }
  Instant ping_at(const Path& path) const {
    return std::max(heard_at(path), path.last_ping) + limits_.heartbeat_interval;
  }
  Instant hint_verdict_at() const {
    return *hinted_at_ + (hint_repeated_ ? kRepeatedHintSilence : kSingleHintSilence);
  }

  Limits limits_;
  bool established_ = false;
  Instant since_;  // the connection was opened, or established
  std::optional<Instant> hinted_at_;
  bool hint_repeated_ = false;
  uint32_t hint_probes_ = 0;
};

}  // namespace rocecoll
