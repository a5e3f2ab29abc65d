// SPDX-License-Identifier: Apache-2.0
// What a link does at the steps of its handshake.
#include <iterator>
#include <utility>

#include "base/check.h"
#include "transport/fast_paths/switching/switching_link.h"

namespace rocecoll {
namespace {

// Flushing takes a device microseconds; what has not come back by then will not.
constexpr Duration kDrainTime = std::chrono::seconds(1);

}  // namespace

void SwitchingLink::say(WireBytes message) {
  control_.say(std::move(message));
  mark_dirty();
}

void SwitchingLink::follow(Step step) {
  for (WireBytes& frame : handshake_.take_frames()) say(std::move(frame));
  switch (step) {
    case Step::kNone:
      return;
    case Step::kMeet:
      return meet();
    case Step::kConnect:
      return connect();
    case Step::kProbe:
      return probe();
    case Step::kCarry:
      return carry_over_path();
    case Step::kFall:
      return carry_over_control(handshake_.reason());
    case Step::kEnd:
      return end_generation(handshake_.reason());
    case Step::kBegin:
      return begin_generation();
  }
}

void SwitchingLink::begin_generation() {
  handshake_.begin();
  make_offer();
}

void SwitchingLink::make_offer() {
  prospects_.on_attempt();
  set_deadline(kNever);
  SwitchingOffer offer;
  prepare_path(offer);
  if (path_ != nullptr) {
    offer.received = path_->received();
    offer.ends = path_->ends();
  }
  follow(handshake_.offer(std::move(offer)));
}

// An offer without ends says why. If there is no new reason, it gives that of the last failure.
void SwitchingLink::prepare_path(SwitchingOffer& offer) {
  offer.outlook = prospects_.outlook();
  offer.reason = handshake_.broken();
  const bool on_control = handshake_.control_carries();
  if (!context_.usable()) {
    offer.reason = context_.unusable;
  } else if (prospects_.final() || (!on_control && prospects_.too_many_errors())) {
    return;
  } else if (prospects_.passes_over(handshake_.generation() == 0,
                                    on_control && handshake_.has_peer_offer())) {
    offer.reason = prospects_.doubt();
  } else if (const Status status = path_->prepare(); !status.ok()) {
    prospects_.on_refused(status);
    offer.outlook = prospects_.outlook();
    offer.reason = status.message();
  }
}

void SwitchingLink::meet() {
  const SwitchingOffer& offer = handshake_.peer_offer();
  if (handshake_.resuming() && !path_->acknowledge(offer.received)) {
    go_down(Status(StatusCode::kNetwork,
                   "the peer has received other messages than were acknowledged for it"));
    return;
  }
  take_written();
  prospects_.on_peer_outlook(offer.outlook);
  follow(handshake_.meet());
}

void SwitchingLink::connect() {
  // Another link may have found out since the offer was made.
  if (const std::string known = prospects_.doubt();
      handshake_.generation() == 0 && !known.empty()) {
    end_attempt(known);
    return;
  }
  if (const Status status = path_->connect(handshake_.peer_offer().ends); !status.ok()) {
    prospects_.on_refused(status);
    prospects_.on_unreached(status.message());
    end_attempt(status.message());
    return;
  }
  const bool waits = !handshake_.control_carries() && prospects_.returns();
  const SwitchingOptions& options = context_.options;
  set_deadline(context_.now + (waits ? options.connect_patience : options.connect_timeout));
  continue_proving();
}

// Each step as soon as what it needs is there.
void SwitchingLink::continue_proving() {
  if (!handshake_.proving() || path_->failed()) return;
  if (handshake_.phase() == Phase::kConnected || path_->connected()) {
    follow(handshake_.on_connected());
  }
  if (handshake_.phase() == Phase::kProbing && path_->proved()) follow(handshake_.on_proved());
}

void SwitchingLink::probe() {
  set_deadline(context_.now + context_.options.proof_timeout);
  if (const Status status = path_->probe(); !status.ok()) on_path_failure(status.message());
}

void SwitchingLink::on_proof_timeout() {
  const SwitchingOptions& options = context_.options;
  // Slow is not out of reach.
  if (handshake_.phase() == Phase::kConnecting) {
    end_attempt("the system is still looking for the way to the peer");
  } else if (handshake_.phase() == Phase::kConnected) {
    end_attempt("the peer is still looking for the way to this rank");
  } else {
    on_path_failure("no answer over " + options.words.path + " within " +
                    std::to_string(options.proof_timeout / std::chrono::milliseconds(1)) + " ms");
  }
}

void SwitchingLink::carry_over_path() {
  if (handshake_.control_carries()) control_.owe_moved(handshake_.generation());
  handshake_.carry();
  --context_.links_off_path;
  set_deadline(prospects_.completion(path_->complete()));
  prospects_.on_carried();
  if (path_->failed()) {
    break_path(handshake_.broken());
    return;
  }
  path_->start();
  if (closed_) path_->request_acknowledgement();
  log_.on_carried(path_->carrier());
  mark_dirty();
}

// The generation has come to nothing.
void SwitchingLink::carry_over_control(const std::string& reason) {
  const SwitchingOptions& options = context_.options;
  const bool at_first = handshake_.generation() == 0;
  if (handshake_.control_carries()) {
    log_.on_stayed(reason);
  } else if (!closed_ && !options.failover && !handshake_.peer_leaves() &&
             (options.expected || !at_first)) {
    go_down(Status(StatusCode::kNetwork, options.words.path + " does not carry " + log_.pair() +
                                             ": " + reason + "; " + options.words.control +
                                             " would, but failover is switched off"));
    return;
  } else {
    log_.on_fallen(reason, at_first, handshake_.peer_leaves());
  }
  leave_path();
  handshake_.fall();
  set_deadline(prospects_.next_attempt());
  mark_dirty();
}

// What the fast path was given goes over the control path instead.
void SwitchingLink::leave_path() {
  control_.forget_moved();
  if (path_ != nullptr) {
    std::vector<WireBytes> frames = path_->give_up();
    ROCECOLL_CHECK(frames.empty() || !control_.amid_frame());
    waiting_frames_.insert(waiting_frames_.begin(), std::make_move_iterator(frames.begin()),
                           std::make_move_iterator(frames.end()));
  }
  if (handshake_.control_carries()) return;
  for (WireBytes& exposed : memory_.move_to_control(*control_.link())) say(std::move(exposed));
}

void SwitchingLink::on_path_failure(const std::string& reason) {
  if (handshake_.carries()) {
    break_path(reason);
    return;
  }
  if (handshake_.proving()) prospects_.on_unreached(reason);
  end_attempt(reason);
}

void SwitchingLink::end_attempt(const std::string& reason) {
  if (handshake_.attempting()) path_->fail();
  follow(handshake_.withdraw(reason));
}

void SwitchingLink::break_path(const std::string& reason) {
  prospects_.on_error();
  end_generation(reason);
}

void SwitchingLink::end_generation(const std::string& reason) {
  // A peer that has left makes no offer for another generation.
  if (held_down_) return go_down(*std::exchange(held_down_, std::nullopt));
  prospects_.on_end();
  path_->fail();
  if (handshake_.carries()) ++context_.links_off_path;
  handshake_.end(reason);
  set_deadline(context_.now + kDrainTime);
  continue_draining();
}

void SwitchingLink::continue_draining() {
  if (handshake_.phase() != Phase::kDraining || !drained()) return;
  set_deadline(kNever);
  destroy_path();
  begin_generation();
}

}  // namespace rocecoll
