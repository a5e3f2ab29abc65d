// SPDX-License-Identifier: Apache-2.0
// The generations of a link: which path carries it (see switching_link.h).
#include <iterator>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "transport/fast_paths/switching/switching_link.h"

namespace rocecoll {
namespace {

// Flushing takes a device microseconds; what has not come back by then will not.
constexpr Duration kDrainTime = std::chrono::seconds(1);
// Failures further apart than this do not add up.
constexpr Duration kRecoveryMemory = std::chrono::seconds(60);
// A path of which a part does not carry, and no port tells why, is tried as a whole after this. If
// the part still does not, the link is without the path for as long as proof_timeout.
constexpr Duration kIncompleteTime = std::chrono::minutes(5);

// Asking for the same again will not help.
bool IsFinal(const Status& status) {
  return status.code() == StatusCode::kUnsupported || status.code() == StatusCode::kInvalidArgument;
}

}  // namespace

std::string SwitchingLink::pair_text() const {
  return "ranks " + std::to_string(id_.local) + " and " + std::to_string(id_.remote) + " (" +
         peer_text_ + ")";
}

// Where it has not said why.
std::string SwitchingLink::peer_failed() const {
  return "the peer's " + context_.options.words.link + " failed";
}

void SwitchingLink::announce(const std::string& text, bool warning) {
  if (closed_ || context_.device == nullptr) return;  // without one, that was said once
  const std::string entry = pair_text() + ": " + text;
  if (context_.announced.size() >= kMaxAnnounced || !context_.announced.insert(entry).second)
    return;
  Log(warning ? Severity::kWarning : Severity::kInfo, entry);
}

void SwitchingLink::begin_generation(uint32_t generation) {
  generation_ = generation;
  if (peer_offer_ && peer_offer_->generation != generation) peer_offer_.reset();
  if (peer_verdict_ && peer_verdict_->generation != generation) peer_verdict_.reset();
  ready_ = said_ready_ = probing_ = more_ends_ = false;
  our_verdict_.reset();
  retry_.on_attempt(context_.now);
  if (on_control_) returning_in_ = generation;
  set_phase(Phase::kOffering);
  set_deadline(kNever);
  SwitchingOffer offer;
  offer.generation = generation;
  offer.outlook = prepare_path();
  if (path_ != nullptr) {
    offer.received = path_->received();
    offer.ends = path_->ends();
  }
  offered_ = !offer.ends.addresses.empty();
  offer.reason = broken_;
  say(WriteOffer(offer));
  if (peer_offer_) meet();
}

// Returns what an offer of nothing is to say.
SwitchingOutlook SwitchingLink::prepare_path() {
  const SwitchingOutlook may_change =
      returns() ? SwitchingOutlook::kAskAgain : SwitchingOutlook::kFinal;
  if (!context_.usable()) {
    broken_ = context_.unusable;
    return returns() ? SwitchingOutlook::kWillOffer : SwitchingOutlook::kFinal;
  }
  if (closed_ || final_) return SwitchingOutlook::kFinal;
  if (!on_control_ && recoveries_ > context_.options.max_recoveries) return may_change;
  if (passes_over()) {
    broken_ = doubt();
    return may_change;
  }
  if (const Status status = path_->prepare(); !status.ok()) {
    broken_ = status.message();
    final_ = IsFinal(status);
  }
  return final_ ? SwitchingOutlook::kFinal : may_change;
}

// Why an attempt is hardly worth its time; empty: it is. Who expects the faster path waits for it.
std::string SwitchingLink::doubt() const {
  if (context_.options.expected || !returns()) return "";
  return context_.unreached.doubt(peer_text_);
}

// The first attempt is not waited for then, and not every one that the peer wants is made.
bool SwitchingLink::passes_over() {
  if (doubt().empty()) return false;
  const bool asked = on_control_ && peer_offer_;
  return generation_ == 0 || (asked && !context_.unreached.take_answer(context_.now));
}

// From the control path, which goes on.
void SwitchingLink::try_again() {
  if (!returns() || !context_.usable()) return;
  UnreachedPeers& unreached = context_.unreached;
  if (!doubt().empty() && !unreached.take_turn(context_.now)) {
    set_deadline(retry_.some_time_after(unreached.next_turn()));
  } else {
    begin_generation(generation_ + 1);
  }
}

void SwitchingLink::on_offer(SwitchingOffer offer) {
  if (offer.generation == generation_ && phase_ == Phase::kOffering && !peer_offer_) {
    peer_offer_ = std::move(offer);
    meet();
    return;
  }
  // Else it was on its way when we gave this attempt up.
  if (offer.generation != generation_ + 1) return;
  const std::string reason = offer.reason.empty() ? peer_failed() : offer.reason;
  if (phase_ == Phase::kFast || phase_ == Phase::kDraining || phase_ == Phase::kControl) {
    peer_offer_ = std::move(offer);
  }
  if (phase_ == Phase::kFast) end_generation(reason);
  if (phase_ == Phase::kControl) begin_generation(generation_ + 1);
}

// Both ends have made their offers.
void SwitchingLink::meet() {
  const SwitchingOffer& offer = *peer_offer_;
  if (resuming_ && !path_->acknowledge(offer.received)) {
    go_down(Status(StatusCode::kNetwork,
                   "the peer has received other messages than were acknowledged for it"));
    return;
  }
  resuming_ = false;
  take_written();
  const bool nothing = offer.ends.addresses.empty();
  peer_outlook_ = nothing ? offer.outlook : SwitchingOutlook::kAskAgain;
  if (!offered_ || nothing || peer_verdict_) {
    const std::string& said = peer_verdict_ ? peer_verdict_->reason : offer.reason;
    const std::string reason = said.empty() ? peer_failed() : "the peer says: " + said;
    carry_over_control(offered_ ? reason : broken_);
    return;
  }
  // Another link may have found out since the offer was made.
  if (const std::string known = doubt(); generation_ == 0 && !known.empty()) {
    on_path_failure(known);
    return;
  }
  if (const Status status = path_->connect(offer.ends); !status.ok()) {
    final_ = IsFinal(status);
    if (!final_) note_unreached(status.message());
    on_path_failure(status.message());
    return;
  }
  set_phase(Phase::kProving);
  const bool waits = !on_control_ && returns();
  const SwitchingOptions& options = context_.options;
  set_deadline(context_.now + (waits ? options.connect_patience : options.connect_timeout));
  continue_proving();
}

void SwitchingLink::on_ready(uint32_t generation) {
  if (generation != generation_ || phase_ != Phase::kProving || ready_) return;
  ready_ = true;
  continue_proving();
}

// Each step as soon as what it needs is there.
void SwitchingLink::continue_proving() {
  if (our_verdict_ || path_->failed()) return;
  if (!said_ready_ && path_->connected()) {
    said_ready_ = true;
    say(WriteReady(generation_));
  }
  if (!probing_ && said_ready_ && ready_) {
    probing_ = true;
    set_deadline(context_.now + context_.options.proof_timeout);
    if (const Status status = path_->probe(); !status.ok()) {
      on_path_failure(status.message());
      return;
    }
  }
  if (!probing_ || !path_->proved()) return;
  say_verdict(true, "");
  conclude();
}

void SwitchingLink::on_proof_timeout() {
  const SwitchingOptions& options = context_.options;
  if (probing_) {
    on_path_failure("no answer over " + options.words.path + " within " +
                    std::to_string(options.proof_timeout / std::chrono::milliseconds(1)) + " ms");
  } else {
    // Slow is not out of reach.
    end_attempt(said_ready_ ? "the peer is still looking for the way to this rank"
                            : "the system is still looking for the way to the peer");
  }
}

void SwitchingLink::say_verdict(bool proved, const std::string& reason) {
  our_verdict_ = proved;
  say(WriteVerdict({generation_, proved, reason}));
}

void SwitchingLink::on_verdict(const SwitchingVerdict& verdict) {
  if (phase_ == Phase::kDraining) {
    // The peer has given the next generation up already.
    if (verdict.generation == generation_ + 1 && !verdict.proved) peer_verdict_ = verdict;
    return;
  }
  if (verdict.generation != generation_ || peer_verdict_) return;
  if (phase_ != Phase::kOffering && phase_ != Phase::kProving) return;
  peer_verdict_ = verdict;
  conclude();
}

void SwitchingLink::conclude() {
  if (peer_verdict_ && !peer_verdict_->proved) {
    carry_over_control("the peer says: " + peer_verdict_->reason);
  } else if (peer_verdict_ && our_verdict_) {
    carry_over_path();
  }
}

void SwitchingLink::carry_over_path() {
  set_phase(Phase::kFast);
  plan_completion();
  retry_.on_carried(context_.now);
  context_.unreached.on_reached(peer_text_, context_.now);
  move_owed_ = move_owed_ || std::exchange(on_control_, false);
  if (path_->failed()) {
    break_path(broken_);
    return;
  }
  path_->start();
  if (closed_) path_->request_acknowledgement();
  announce_return();
  mark_dirty();
}

// When to begin another generation of a path that carries, with what this one lacks.
void SwitchingLink::plan_completion() {
  const bool incomplete = !path_->complete() && returns();
  const Instant next = more_ends_ ? retry_.soon(context_.now) : context_.now + kIncompleteTime;
  set_deadline(incomplete ? next : kNever);
}

void SwitchingLink::announce_return() {
  if (closed_ || !std::exchange(fell_, false)) {
    announce(path_->carrier(), false);
    return;
  }
  const auto tenths = (context_.now - fell_at_) / std::chrono::milliseconds(100);
  Log(Severity::kInfo, pair_text() + ": again " + path_->carrier() + ", after " +
                           std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) +
                           " s over " + context_.options.words.control);
}

// The generation has come to nothing.
void SwitchingLink::carry_over_control(const std::string& reason) {
  const SwitchingOptions& options = context_.options;
  if (on_control_) {
    const bool known = std::exchange(told_why_, true);
    if (!known) announce("stays on " + options.words.control + ": " + reason, false);
  } else if (!closed_ && !options.failover && (options.expected || generation_ > 0)) {
    go_down(Status(StatusCode::kNetwork, options.words.path + " does not carry " + pair_text() +
                                             ": " + reason + "; " + options.words.control +
                                             " would, but failover is switched off"));
    return;
  } else {
    announce_fall(reason);
  }
  leave_path();
  set_phase(Phase::kControl);
  set_deadline(kNever);
  if (returns() && context_.usable() && peer_outlook_ == SwitchingOutlook::kAskAgain) {
    set_deadline(retry_.next_after(context_.now));
  }
  mark_dirty();
}

// As far as it has said in this generation.
bool SwitchingLink::peer_leaves() const {
  return (peer_offer_ && peer_offer_->reason == kLeaving) ||
         (peer_verdict_ && peer_verdict_->reason == kLeaving);
}

void SwitchingLink::announce_fall(const std::string& reason) {
  const SwitchingOptions& options = context_.options;
  told_why_ = generation_ == 0;
  if (told_why_) {
    announce(options.words.control + ": " + reason, options.expected && !peer_leaves());
    return;
  }
  fell_at_ = context_.now;
  fell_ = falls_.count(context_.now);
  if (!fell_ || closed_) return;
  Log(peer_leaves() ? Severity::kInfo : Severity::kWarning,
      pair_text() + ": goes on over " + options.words.control + ": " + reason + falls_.text());
}

// What the faster path was given goes over the control path.
void SwitchingLink::leave_path() {
  move_owed_ = false;
  if (path_ != nullptr) {
    std::vector<WireBytes> frames = path_->give_up();
    ROCECOLL_CHECK(frames.empty() || sent_of_frame_ == 0);
    waiting_frames_.insert(waiting_frames_.begin(), std::make_move_iterator(frames.begin()),
                           std::make_move_iterator(frames.end()));
  }
  if (std::exchange(on_control_, true)) return;
  new_writes_.clear();
  control_writes_.clear();
  for (const auto& [number, write] : writes_) {
    if (!write.on_control) control_writes_.push_back(number);
  }
  for (auto& [number, exposure] : exposures_) {
    if (!exposure.on_control) expose_on_control(number, exposure);
  }
}

// Whether an attempt to have the faster path carry may be worth it at some later time.
bool SwitchingLink::returns() const {
  const SwitchingOptions& options = context_.options;
  return options.returns && options.failover && path_ != nullptr && !closed_ && !final_ &&
         peer_outlook_ != SwitchingOutlook::kFinal;
}

// Both ends have tried, with devices that work.
void SwitchingLink::note_unreached(const std::string& reason) {
  if (!closed_ && context_.usable()) context_.unreached.on_failure(peer_text_, reason);
}

// The path, or its device, does not work.
void SwitchingLink::on_path_failure(const std::string& reason) {
  broken_ = reason;
  if (phase_ == Phase::kFast) {
    break_path(reason);
    return;
  }
  if (phase_ != Phase::kOffering && phase_ != Phase::kProving) return;
  if (phase_ == Phase::kProving) note_unreached(reason);
  end_attempt(reason);
}

void SwitchingLink::end_attempt(const std::string& reason) {
  broken_ = reason;
  path_->fail();
  if (our_verdict_) return;  // the peer's verdict decides: carry_over_path() sees the failure
  say_verdict(false, reason);
  if (resuming_) {
    offered_ = false;
  } else {
    carry_over_control(reason);
  }
}

// An error that this end has found. Those of the peer are the peer's to count, and a port that
// comes and goes is none.
void SwitchingLink::break_path(const std::string& reason) {
  if (context_.now - last_break_ > kRecoveryMemory) recoveries_ = 0;
  last_break_ = context_.now;
  ++recoveries_;
  end_generation(reason);
}

void SwitchingLink::end_generation(const std::string& reason) {
  broken_ = reason;
  retry_.on_broken(context_.now);
  resuming_ = true;
  path_->fail();
  set_phase(Phase::kDraining);
  set_deadline(context_.now + kDrainTime);
  continue_draining();
}

void SwitchingLink::continue_draining() {
  if (phase_ != Phase::kDraining || !drained()) return;
  set_deadline(kNever);
  destroy_path();
  begin_generation(generation_ + 1);
}

}  // namespace rocecoll
