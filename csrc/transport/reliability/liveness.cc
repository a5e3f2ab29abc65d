// SPDX-License-Identifier: Apache-2.0
#include "transport/reliability/liveness.h"

#include <algorithm>

#include "base/check.h"

namespace rocecoll {

void Liveness::on_hint(Instant now, const Path& path) {
  if (hinted_at_ && !hinted(path)) hinted_at_.reset();
  // Hints before our first probe are about earlier packets and say nothing new.
  if (hinted_at_ && hint_probes_ > 0 && now < *hinted_at_ + kSingleHintSilence) {
    hint_repeated_ = true;
    return;
  }
  if (hinted_at_ && hint_probes_ == 0) return;
  hinted_at_ = now;
  hint_repeated_ = false;
  hint_probes_ = 0;
}

void Liveness::on_pause(Duration length) {
  since_ += length;
  if (hinted_at_) *hinted_at_ += length;
}

Liveness::Verdict Liveness::check(Instant now, Path& path) {
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

Instant Liveness::deadline(const Path& path) const {
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

}  // namespace rocecoll
