// SPDX-License-Identifier: Apache-2.0
#include "transport/fast_paths/switching/switching_handshake.h"

namespace rocecoll {

using Step = SwitchingHandshake::Step;

bool SwitchingHandshake::peer_leaves() const {
  return (peer_offer_ && peer_offer_->reason == kLeaving) ||
         (peer_verdict_ && peer_verdict_->reason == kLeaving);
}

// Where it has not said why.
std::string SwitchingHandshake::peer_failed() const {
  return "the peer's " + words_.link + " failed";
}

void SwitchingHandshake::begin() {
  begun_from_ = phase_;
  ++generation_;
  if (peer_offer_ && peer_offer_->generation != generation_) peer_offer_.reset();
  if (peer_verdict_ && peer_verdict_->generation != generation_) peer_verdict_.reset();
  peer_ready_ = false;
  if (begun_from_ == Phase::kControl) returning_in_ = generation_;
  phase_ = Phase::kOffering;
}

Step SwitchingHandshake::offer(SwitchingOffer ours) {
  ours.generation = generation_;
  if (ours.ends.addresses.empty()) phase_ = Phase::kAbstaining;
  frames_.push_back(WriteOffer(ours));
  broken_ = std::move(ours.reason);
  return peer_offer_ ? Step::kMeet : Step::kNone;
}

Step SwitchingHandshake::meet() {
  if (phase_ != Phase::kOffering) return fall_because(broken_);
  if (peer_verdict_ || peer_offer_->ends.addresses.empty()) {
    const std::string& said = peer_verdict_ ? peer_verdict_->reason : peer_offer_->reason;
    return fall_because(said.empty() ? peer_failed() : "the peer says: " + said);
  }
  phase_ = Phase::kConnecting;
  return Step::kConnect;
}

Step SwitchingHandshake::on_connected() {
  if (phase_ == Phase::kConnecting) {
    phase_ = Phase::kConnected;
    frames_.push_back(WriteReady(generation_));
  }
  if (phase_ != Phase::kConnected || !peer_ready_) return Step::kNone;
  phase_ = Phase::kProbing;
  return Step::kProbe;
}

Step SwitchingHandshake::on_proved() {
  phase_ = Phase::kProved;
  say_verdict(true, "");
  return conclude();
}

Step SwitchingHandshake::withdraw(const std::string& reason) {
  broken_ = reason;
  if (!undecided()) return Step::kNone;
  say_verdict(false, reason);
  if (!resuming()) return fall_because(reason);
  phase_ = Phase::kWithdrawn;
  return Step::kNone;
}

void SwitchingHandshake::end(const std::string& reason) {
  broken_ = reason;
  phase_ = Phase::kDraining;
}

Step SwitchingHandshake::on_offer(SwitchingOffer offer) {
  if (offer.generation == generation_ && awaits_offer()) {
    peer_offer_ = std::move(offer);
    return Step::kMeet;
  }
  // Any other was on its way when we gave this attempt up.
  if (offer.generation != generation_ + 1) return Step::kNone;
  if (phase_ != Phase::kFast && phase_ != Phase::kDraining && phase_ != Phase::kControl) {
    return Step::kNone;
  }
  reason_ = offer.reason.empty() ? peer_failed() : offer.reason;
  peer_offer_ = std::move(offer);
  if (phase_ == Phase::kDraining) return Step::kNone;
  return phase_ == Phase::kFast ? Step::kEnd : Step::kBegin;
}

void SwitchingHandshake::on_ready(uint32_t generation) {
  if (generation == generation_ && proving()) peer_ready_ = true;
}

Step SwitchingHandshake::on_verdict(SwitchingVerdict verdict) {
  if (phase_ == Phase::kDraining) {
    // The peer has given the next generation up already.
    if (verdict.generation == generation_ + 1 && !verdict.proved) {
      peer_verdict_ = std::move(verdict);
    }
    return Step::kNone;
  }
  if (verdict.generation != generation_ || peer_verdict_ || !attempting()) return Step::kNone;
  peer_verdict_ = std::move(verdict);
  return conclude();
}

bool SwitchingHandshake::on_moved(uint32_t generation) {
  if (generation > generation_) return false;
  peer_moved_in_ = generation;
  return true;
}

void SwitchingHandshake::say_verdict(bool proved, const std::string& reason) {
  frames_.push_back(WriteVerdict({generation_, proved, reason}));
}

Step SwitchingHandshake::fall_because(const std::string& reason) {
  reason_ = reason;
  return Step::kFall;
}

Step SwitchingHandshake::conclude() {
  if (peer_verdict_ && !peer_verdict_->proved) {
    return fall_because("the peer says: " + peer_verdict_->reason);
  }
  return peer_verdict_ && phase_ == Phase::kProved ? Step::kCarry : Step::kNone;
}

}  // namespace rocecoll
