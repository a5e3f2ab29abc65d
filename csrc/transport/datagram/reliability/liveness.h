// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>

#include "base/check.h"
#include "base/time.h"
#include "transport/datagram/reliability/path.h"

namespace rocecoll {

// Decides whether the peer lives. A silence causes a ping; a longer silence means death, and a
// short one does if the network hints that nobody listens there. Hearing the peer on any connection
// of the path counts. During the handshake INITs are the pings: a live process answers them in some
// way.
class Liveness {
 public:
  struct Limits {
    Duration heartbeat_interval;
    Duration peer_timeout;
  };
  // The least timeout for first contact: the peer's process may just have started.
  static constexpr Duration kLeastForContact = std::chrono::seconds(3);
  static constexpr uint32_t kHintProbes = 3;
  static constexpr Duration kHintProbeInterval = std::chrono::milliseconds(10);
  // The silences since the first hint after which the peer is dead. A hint may be forged or stale,
  // so that death takes a second hint, or a silence that no live host's scheduler explains.
  static constexpr Duration kRepeatedHintSilence = std::chrono::milliseconds(30);
  static constexpr Duration kSingleHintSilence = std::chrono::milliseconds(300);

  Liveness(const Limits& limits, Instant now) : limits_(limits), since_(now) {}

  void on_established(Instant now) {
    established_ = true;
    since_ = now;
  }
  void on_hint(Instant now, const Path& path) {
    if (hinted_at_ && !hinted(path)) hinted_at_.reset();
    // Hints before the first probe are about earlier packets and say nothing new.
    if (hinted_at_ && hint_probes_ > 0 && now < *hinted_at_ + kSingleHintSilence) {
      hint_repeated_ = true;
      return;
    }
    if (hinted_at_ && hint_probes_ == 0) return;
    hinted_at_ = now;
    hint_repeated_ = false;
    hint_probes_ = 0;
  }
  // As Path::on_pause().
  void on_pause(Duration length) {
    since_ += length;
    if (hinted_at_) *hinted_at_ += length;
  }

  enum class Verdict : uint8_t { kQuiet, kProbe, kSilent, kUnreachable };
  // Changes state; call at deadline(). After kProbe a probe must be sent.
  Verdict check(Instant now, Path& path) {
    if (hinted_at_ && path.last_heard > *hinted_at_) hinted_at_.reset();
    if (hinted_at_) {
      ROCECOLL_CHECK(now >= *hinted_at_);
      if (now >= hint_verdict_at()) return Verdict::kUnreachable;
      if (hint_probes_ < kHintProbes && now >= *hinted_at_ + hint_probes_ * kHintProbeInterval) {
        ++hint_probes_;
        return Verdict::kProbe;
      }
    }
    if (now >= heard_at(path) + longest_silence()) return Verdict::kSilent;
    if (established_ && now >= ping_at(path)) {
      path.last_ping = now;
      ROCECOLL_CHECK(ping_at(path) > now);
      return Verdict::kProbe;
    }
    return Verdict::kQuiet;
  }
  Instant deadline(const Path& path) const {
    Instant at = kNever;
    if (hinted(path)) {
      at = hint_verdict_at();
      if (hint_probes_ < kHintProbes) {
        at = std::min(at, *hinted_at_ + hint_probes_ * kHintProbeInterval);
      }
    }
    at = std::min(at, heard_at(path) + longest_silence());
    return established_ ? std::min(at, ping_at(path)) : at;
  }
  // When the peer was last heard on any network, or when waiting for it began.
  Instant heard_at(const Path& path) const {
    return std::max(heard_here_at(path), path.vouched_at);
  }
  // The silence after which the peer counts as dead.
  Duration longest_silence() const {
    return established_ ? limits_.peer_timeout : std::max(limits_.peer_timeout, kLeastForContact);
  }

 private:
  // Pings and hints concern only this path's own network.
  Instant heard_here_at(const Path& path) const { return std::max(path.last_heard, since_); }
  bool hinted(const Path& path) const { return hinted_at_ && path.last_heard <= *hinted_at_; }
  Instant ping_at(const Path& path) const {
    return std::max(heard_here_at(path), path.last_ping) + limits_.heartbeat_interval;
  }
  Instant hint_verdict_at() const {
    return *hinted_at_ + (hint_repeated_ ? kRepeatedHintSilence : kSingleHintSilence);
  }

  Limits limits_;
  bool established_ = false;
  Instant since_;  // when the connection was opened or, later, established
  std::optional<Instant> hinted_at_;
  bool hint_repeated_ = false;
  uint32_t hint_probes_ = 0;
};

}  // namespace rocecoll
