// SPDX-License-Identifier: Apache-2.0
// The generations of a link: which path carries it (see dual_link.h).
#include <iterator>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "transport/dual/dual_link.h"

namespace rocecoll {
namespace {

// Flushing takes a device microseconds; what has not come back by then will not.
constexpr Duration kDrainTime = std::chrono::seconds(1);
// Failures further apart than this do not add up.
constexpr Duration kRecoveryMemory = std::chrono::seconds(60);

}  // namespace

std::string DualLink::pair_text() const {
  return "ranks " + std::to_string(id_.local) + " and " + std::to_string(id_.remote) + " (" +
         peer_text_ + ")";
}

void DualLink::announce(const std::string& text, bool warning) {
  if (closed_ || context_.device == nullptr) return;  // without one, that was said once
  const std::string entry = pair_text() + ": " + text;
  if (context_.announced.size() >= kMaxAnnounced || !context_.announced.insert(entry).second)
    return;
  Log(warning ? Severity::kWarning : Severity::kInfo, entry);
}

void DualLink::begin_generation(uint32_t generation) {
  generation_ = generation;
  if (peer_offer_ && peer_offer_->generation != generation) peer_offer_.reset();
  ready_ = false;
  our_verdict_.reset();
  peer_verdict_.reset();
  set_phase(Phase::kOffering);
  if (!context_.usable()) {
    broken_ = context_.unusable;
  } else if (!closed_ && recoveries_ <= context_.options.max_recoveries) {
    if (const Status status = path_->prepare(); !status.ok()) broken_ = status.message();
  }
  DualOffer offer;
  offer.generation = generation;
  if (path_ != nullptr) {
    offer.received = path_->received();
    offer.ends = path_->ends();
  }
  offered_ = !offer.ends.addresses.empty();
  offer.reason = broken_;
  say(WriteOffer(offer));
  if (peer_offer_) meet();
}

void DualLink::on_offer(DualOffer offer) {
  if (offer.generation == generation_ && phase_ == Phase::kOffering && !peer_offer_) {
    peer_offer_ = std::move(offer);
    meet();
    return;
  }
  const bool next = offer.generation == generation_ + 1;
  if (next && (phase_ == Phase::kFast || phase_ == Phase::kDraining)) {
    const std::string reason = offer.reason.empty()
                                   ? "the peer's " + context_.options.words.link + " failed"
                                   : offer.reason;
    peer_offer_ = std::move(offer);
    if (phase_ == Phase::kFast) break_path(reason);
  }
  // Else it was on its way when we gave the path up for this link.
}

// Both ends have made their offers.
void DualLink::meet() {
  const DualOffer& offer = *peer_offer_;
  if (generation_ > 0 && path_ != nullptr && !path_->acknowledge(offer.received)) {
    go_down(Status(StatusCode::kNetwork, "the peer has received messages that were never sent"));
    return;
  }
  take_written();
  if (!offered_ || offer.ends.addresses.empty()) {
    carry_over_control(offered_ ? "the peer says: " + offer.reason : broken_);
    return;
  }
  if (const Status status = path_->connect(offer.ends); !status.ok()) {
    on_path_failure(status.message());
    return;
  }
  set_phase(Phase::kProving);
  set_deadline(context_.now + context_.options.proof_timeout);
  say(WriteReady(generation_));
}

void DualLink::on_ready(uint32_t generation) {
  if (generation != generation_ || phase_ != Phase::kProving || ready_) return;
  ready_ = true;
  if (const Status status = path_->probe(); !status.ok()) on_path_failure(status.message());
}

void DualLink::on_proved() {
  if (!path_->proved() || our_verdict_) return;
  say_verdict(true, "");
  conclude();
}

void DualLink::say_verdict(bool proved, const std::string& reason) {
  our_verdict_ = proved;
  say(WriteVerdict({generation_, proved, reason}));
}

void DualLink::on_verdict(const DualVerdict& verdict) {
  if (verdict.generation != generation_ || peer_verdict_) return;
  if (phase_ != Phase::kOffering && phase_ != Phase::kProving) return;
  peer_verdict_ = verdict;
  conclude();
}

void DualLink::conclude() {
  if (peer_verdict_ && !peer_verdict_->proved) {
    carry_over_control("the peer says: " + peer_verdict_->reason);
  } else if (peer_verdict_ && our_verdict_) {
    carry_over_path();
  }
}

void DualLink::carry_over_path() {
  set_phase(Phase::kFast);
  set_deadline(kNever);
  if (path_->failed()) {
    break_path(broken_);
    return;
  }
  path_->start();
  if (closed_) path_->request_acknowledgement();
  announce(path_->carrier(), false);
  mark_dirty();
}

void DualLink::carry_over_control(const std::string& reason) {
  const bool first = generation_ == 0;
  const DualOptions& options = context_.options;
  if (!closed_ && !options.failover && (options.expected || !first)) {
    go_down(Status(StatusCode::kNetwork, options.words.path + " does not carry " + pair_text() +
                                             ": " + reason + "; " + options.words.control +
                                             " would, but failover is switched off"));
    return;
  }
  set_phase(Phase::kControl);
  set_deadline(kNever);
  announce((first ? "" : "goes on over ") + options.words.control + ": " + reason,
           options.expected || !first);
  if (path_ != nullptr) {
    std::vector<WireBytes> frames = path_->give_up();
    waiting_frames_.insert(waiting_frames_.begin(), std::make_move_iterator(frames.begin()),
                           std::make_move_iterator(frames.end()));
  }
  new_writes_.clear();
  control_writes_.clear();
  for (const auto& [number, write] : writes_) {
    if (!write.on_control) control_writes_.push_back(number);
  }
  for (auto& [number, exposure] : exposures_) {
    if (!exposure.on_control) expose_on_control(number, exposure);
  }
  mark_dirty();
}

// The path, or its device, does not work.
void DualLink::on_path_failure(const std::string& reason) {
  broken_ = reason;
  if (phase_ == Phase::kFast) {
    break_path(reason);
    return;
  }
  if (phase_ != Phase::kOffering && phase_ != Phase::kProving) return;
  path_->fail();
  if (our_verdict_) return;  // the peer's verdict decides: carry_over_path() sees the failure
  say_verdict(false, reason);
  if (phase_ == Phase::kOffering && generation_ > 0 && !peer_offer_) {
    offered_ = false;  // only the peer's offer tells what of the last generation to repeat
  } else {
    carry_over_control(reason);
  }
}

void DualLink::break_path(const std::string& reason) {
  broken_ = reason;
  if (context_.now - last_break_ > kRecoveryMemory) recoveries_ = 0;
  last_break_ = context_.now;
  ++recoveries_;
  path_->fail();
  set_phase(Phase::kDraining);
  set_deadline(context_.now + kDrainTime);
  continue_draining();
}

void DualLink::continue_draining() {
  if (phase_ != Phase::kDraining || !drained()) return;
  set_deadline(kNever);
  destroy_path();
  begin_generation(generation_ + 1);
}

}  // namespace rocecoll
