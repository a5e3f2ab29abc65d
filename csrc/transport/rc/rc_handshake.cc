// SPDX-License-Identifier: Apache-2.0
// The generations of an RC link: which path carries it (see rc_link.h).
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "transport/rc/rc_link.h"

namespace rocecoll {
namespace {

// Flushing takes the device microseconds; what has not come back by then will not.
constexpr Duration kDrainTime = std::chrono::seconds(1);
// Failures further apart than this do not add up.
constexpr Duration kRecoveryMemory = std::chrono::seconds(60);

}  // namespace

std::string RcLink::pair_text() const {
  return "ranks " + std::to_string(id_.local) + " and " + std::to_string(id_.remote) + " (" +
         peer_text_ + ")";
}

void RcLink::announce(const std::string& text, bool warning) {
  if (closed_ || context_.device == nullptr) return;  // without one, that was said once
  const std::string entry = pair_text() + ": " + text;
  if (context_.announced.size() >= kMaxAnnounced || !context_.announced.insert(entry).second)
    return;
  Log(warning ? Severity::kWarning : Severity::kInfo, entry);
}

void RcLink::begin_generation(uint32_t generation) {
  generation_ = generation;
  if (peer_offer_ && peer_offer_->generation != generation) peer_offer_.reset();
  ready_ = false;
  our_verdict_.reset();
  peer_verdict_.reset();
  set_phase(Phase::kOffering);
  RcOffer offer;
  offer.generation = generation;
  offer.received.resize(kMaxQueuePairsPerLink);
  if (context_.usable() && !closed_ && recoveries_ <= context_.options.max_recoveries) {
    if (const Status status = prepare_streams(); !status.ok()) broken_ = status.message();
  } else if (!context_.usable()) {
    broken_ = context_.unusable;
  }
  for (size_t i = 0; i < streams_.size(); ++i) {
    offer.received[i] = streams_[i]->next_received();
    if (streams_[i]->prepared()) offer.addresses.push_back(streams_[i]->address());
  }
  offered_roce_ = !offer.addresses.empty();
  offer.credits = static_cast<uint16_t>(context_.options.credits);
  offer.reason = broken_;
  say(WriteOffer(offer));
  if (peer_offer_) meet();
}

// All streams have a queue pair afterwards, or none has.
Status RcLink::prepare_streams() {
  Status status;
  if (streams_.empty()) {
    const uint32_t count = context_.options.queue_pairs_per_connection;
    const uint32_t receives = count * RcStream::ReceivesFor(context_.options.credits);
    status = context_.receives->reserve(receives);
    if (!status.ok()) return status;
    reserved_receives_ = receives;
    for (uint32_t i = 0; i < count; ++i) {
      streams_.push_back(std::make_unique<RcStream>(*context_.device, *context_.memory,
                                                    context_.stats, context_.options.first_number));
    }
  }
  for (const auto& stream : streams_) {
    status = stream->prepare();
    if (!status.ok()) break;
    context_.by_queue_pair.emplace(stream->number(), this);
  }
  if (!status.ok()) destroy_queue_pairs();
  return status;
}

void RcLink::give_up_streams() {
  destroy_queue_pairs();
  streams_.clear();
  if (reserved_receives_ > 0) context_.receives->release(std::exchange(reserved_receives_, 0));
}

void RcLink::on_offer(RcOffer offer) {
  if (offer.generation == generation_ && phase_ == Phase::kOffering && !peer_offer_) {
    peer_offer_ = std::move(offer);
    meet();
    return;
  }
  const bool next = offer.generation == generation_ + 1;
  if (next && (phase_ == Phase::kRoce || phase_ == Phase::kDraining)) {
    const std::string reason = offer.reason.empty() ? "the peer's queue pair failed" : offer.reason;
    peer_offer_ = std::move(offer);
    if (phase_ == Phase::kRoce) break_streams(reason);
  }
  // Else it was on its way when we gave RoCE up for this link.
}

// Both ends have made their offers.
void RcLink::meet() {
  const RcOffer& offer = *peer_offer_;
  if (generation_ > 0 && !apply_received(offer)) {
    go_down(Status(StatusCode::kNetwork, "the peer has received messages that were never sent"));
    return;
  }
  if (!offered_roce_ || offer.addresses.empty()) {
    const bool ours = !offered_roce_;
    carry_over_control((ours ? "" : "the peer says: ") + (ours ? broken_ : offer.reason));
    return;
  }
  if (const Status status = connect_streams(offer); !status.ok()) {
    on_stream_failure(status.message());
    return;
  }
  set_phase(Phase::kProving);
  set_deadline(context_.now + context_.options.proof_timeout);
  say(WriteReady(generation_));
}

bool RcLink::apply_received(const RcOffer& offer) {
  for (size_t i = 0; i < streams_.size(); ++i) {
    if (!streams_[i]->acknowledge(offer.received[i])) return false;
    take_written(*streams_[i]);
  }
  return true;
}

// The first generation settles on the smaller number of queue pairs.
Status RcLink::connect_streams(const RcOffer& offer) {
  if (generation_ == 0) {
    while (streams_.size() > offer.addresses.size()) {
      context_.by_queue_pair.erase(streams_.back()->number());
      streams_.pop_back();
    }
    peer_credits_ = offer.credits;
  }
  if (streams_.size() > offer.addresses.size()) {
    return Status(StatusCode::kNetwork, "the peer offers fewer queue pairs than before");
  }
  for (size_t i = 0; i < streams_.size(); ++i) {
    const Status status =
        streams_[i]->connect(offer.addresses[i], context_.options.credits, peer_credits_);
    if (!status.ok()) return status;
  }
  return {};
}

void RcLink::on_ready(uint32_t generation) {
  if (generation != generation_ || phase_ != Phase::kProving || ready_) return;
  ready_ = true;
  for (const auto& stream : streams_) stream->probe();
  if (std::ranges::any_of(streams_, [](const auto& stream) { return stream->failed(); })) {
    on_stream_failure(context_.device->description() + " does not take send requests");
  }
}

void RcLink::on_proved() {
  const bool all =
      std::ranges::all_of(streams_, [](const auto& stream) { return stream->proved(); });
  if (!all || our_verdict_) return;
  say_verdict(true, "");
  conclude();
}

void RcLink::say_verdict(bool proved, const std::string& reason) {
  our_verdict_ = proved;
  say(WriteVerdict({generation_, proved, reason}));
}

void RcLink::on_verdict(const RcVerdict& verdict) {
  if (verdict.generation != generation_ || peer_verdict_) return;
  if (phase_ != Phase::kOffering && phase_ != Phase::kProving) return;
  peer_verdict_ = verdict;
  conclude();
}

void RcLink::conclude() {
  if (peer_verdict_ && !peer_verdict_->proved) {
    carry_over_control("the peer says: " + peer_verdict_->reason);
  } else if (peer_verdict_ && our_verdict_) {
    carry_over_roce();
  }
}

void RcLink::carry_over_roce() {
  set_phase(Phase::kRoce);
  set_deadline(kNever);
  if (std::ranges::any_of(streams_, [](const auto& stream) { return stream->failed(); })) {
    break_streams(broken_);
    return;
  }
  for (const auto& stream : streams_) stream->start();
  if (closed_) {
    for (const auto& stream : streams_) stream->request_acknowledgement();
  }
  announce("RoCE, reliable connection over " + context_.device->description(), false);
  mark_dirty();
}

void RcLink::carry_over_control(const std::string& reason) {
  const bool first = generation_ == 0;
  const RcOptions& options = context_.options;
  if (!closed_ && !options.failover && (options.expected || !first)) {
    go_down(Status(StatusCode::kNetwork, "RoCE does not carry " + pair_text() + ": " + reason +
                                             "; UDP would, but failover is switched off"));
    return;
  }
  set_phase(Phase::kControl);
  set_deadline(kNever);
  announce((first ? "UDP: " : "goes on over UDP: ") + reason, options.expected || !first);
  destroy_queue_pairs();
  std::deque<WireBytes> frames;
  for (const auto& stream : streams_) {
    for (WireBytes& frame : stream->take_frames()) frames.push_back(std::move(frame));
  }
  waiting_frames_.insert(waiting_frames_.begin(), std::make_move_iterator(frames.begin()),
                         std::make_move_iterator(frames.end()));
  give_up_streams();
  new_writes_.clear();
  control_writes_.clear();
  for (auto& [id, write] : writes_) {
    if (write->lease.held) context_.memory->give_back(write->lease);
    if (!write->on_control) control_writes_.push_back(id);
  }
  for (auto& [number, exposure] : exposures_) {
    if (!exposure.on_control) expose_on_control(number, exposure);
  }
  mark_dirty();
}

// A queue pair, or the device, does not work.
void RcLink::on_stream_failure(const std::string& reason) {
  broken_ = reason;
  if (phase_ == Phase::kRoce) {
    break_streams(reason);
    return;
  }
  if (phase_ != Phase::kOffering && phase_ != Phase::kProving) return;
  for (const auto& stream : streams_) stream->fail();
  if (our_verdict_) return;  // the peer's verdict decides: carry_over_roce() sees the failure
  say_verdict(false, reason);
  if (phase_ == Phase::kOffering && generation_ > 0 && !peer_offer_) {
    offered_roce_ = false;  // only the peer's offer tells what of the last generation to repeat
  } else {
    carry_over_control(reason);
  }
}

void RcLink::break_streams(const std::string& reason) {
  broken_ = reason;
  if (context_.now - last_break_ > kRecoveryMemory) recoveries_ = 0;
  last_break_ = context_.now;
  ++recoveries_;
  for (const auto& stream : streams_) stream->fail();
  set_phase(Phase::kDraining);
  set_deadline(context_.now + kDrainTime);
  continue_draining();
}

void RcLink::continue_draining() {
  if (phase_ != Phase::kDraining || !drained()) return;
  set_deadline(kNever);
  destroy_queue_pairs();
  begin_generation(generation_ + 1);
}

}  // namespace rocecoll
