// SPDX-License-Identifier: Apache-2.0
// Whether an attempt with the fast path is worthwhile for one link, and when the next one is due.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "base/status.h"
#include "base/time.h"
#include "transport/fast_paths/switching/switching_context.h"
#include "transport/fast_paths/switching/switching_retry.h"
#include "transport/fast_paths/switching/switching_wire.h"

namespace rocecoll {

class SwitchingProspects {
 public:
  // Errors further apart than this do not add up.
  static constexpr Duration kRecoveryMemory = std::chrono::seconds(60);
  // A path of which a part does not carry, and no port tells why, is tried as a whole after this.
  // If the part still does not, the link is without the path for as long as proof_timeout.
  static constexpr Duration kIncompleteTime = std::chrono::minutes(5);

  // Both outlive it.
  SwitchingProspects(SwitchingContext& context, const std::string& peer, uint64_t seed)
      : context_(context), peer_(peer), retry_(seed) {}

  // This end will never offer anything again.
  bool final() const { return final_; }
  void make_final() { final_ = true; }
  // The path has refused to make or to connect its ends. For some reasons a further try is useless.
  void on_refused(const Status& status) {
    final_ = final_ || status.code() == StatusCode::kUnsupported ||
             status.code() == StatusCode::kInvalidArgument;
  }
  void on_peer_outlook(SwitchingOutlook outlook) { peer_outlook_ = outlook; }
  // Whether an attempt may be worth it at some later time.
  bool returns() const {
    const SwitchingOptions& options = context_.options;
    return options.returns && options.failover && context_.device != nullptr && !final_ &&
           peer_outlook_ != SwitchingOutlook::kFinal;
  }
  // What an offer of nothing is to say.
  SwitchingOutlook outlook() const {
    if (!returns()) return SwitchingOutlook::kFinal;
    return context_.usable() ? SwitchingOutlook::kAskAgain : SwitchingOutlook::kWillOffer;
  }
  // Why an attempt is hardly worth its time. Empty if it is, and for a link that expects the fast
  // path, which waits for it.
  std::string doubt() const {
    if (context_.options.expected || !returns()) return "";
    return context_.unreached.doubt(peer_);
  }
  // In doubt, a link does not wait for its first attempt, and makes only some of those that the
  // peer asks for.
  bool passes_over(bool first, bool asked_by_peer) {
    if (doubt().empty()) return false;
    return first || (asked_by_peer && !context_.unreached.take_answer(context_.now));
  }

  // An attempt begins, of whichever end.
  void on_attempt() {
    more_ends_ = false;
    retry_.on_attempt(context_.now);
  }
  void on_carried() {
    retry_.on_carried(context_.now);
    context_.unreached.on_reached(peer_, context_.now);
  }
  // The generation that carried is over.
  void on_end() { retry_.on_broken(context_.now); }
  // It ended by an error that this end found. The peer counts those that it finds; a port that
  // comes and goes is no error.
  void on_error() {
    if (context_.now - last_error_ > kRecoveryMemory) recoveries_ = 0;
    last_error_ = context_.now;
    ++recoveries_;
  }
  bool too_many_errors() const { return recoveries_ > context_.options.max_recoveries; }
  // Both ends have tried, with devices that work.
  void on_unreached(const std::string& reason) {
    if (!final_ && context_.usable()) context_.unreached.on_failure(peer_, reason);
  }
  // The path could have more ends than this generation began with.
  void on_more_ends() { more_ends_ = true; }

  // -- when to begin another generation; kNever: this end does not
  // The control path carries from now on.
  Instant next_attempt() {
    const bool asks =
        returns() && context_.usable() && peer_outlook_ == SwitchingOutlook::kAskAgain;
    return asks ? retry_.next_after(context_.now) : kNever;
  }
  // The device works again.
  Instant soon() const { return retry_.soon(context_.now); }
  // That time has come. None: now.
  std::optional<Instant> put_off() {
    if (!returns() || !context_.usable()) return kNever;
    UnreachedPeers& unreached = context_.unreached;
    if (doubt().empty() || unreached.take_turn(context_.now)) return std::nullopt;
    return retry_.some_time_after(unreached.next_turn());
  }
  // The fast path carries; `complete` if it has all the ends that it can have.
  Instant completion(bool complete) const {
    if (complete || !returns()) return kNever;
    return more_ends_ ? soon() : context_.now + kIncompleteTime;
  }

 private:
  SwitchingContext& context_;
  const std::string& peer_;
  SwitchingRetry retry_;
  uint32_t recoveries_ = 0;
  Instant last_error_{};
  bool final_ = false;
  bool more_ends_ = false;
  SwitchingOutlook peer_outlook_ = SwitchingOutlook::kAskAgain;
};

}  // namespace rocecoll
