// SPDX-License-Identifier: Apache-2.0
// The owner's side of a link: what Link promises, and what the faster path does for it.
#include "transport/fast_paths/switching/switching_link.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace rocecoll {
namespace {

// The control path is silent once so many of the peer's have not come.
constexpr int kMissedHeartbeats = 2;

}  // namespace

SwitchingLink::SwitchingLink(SwitchingContext& context, Link& control, const Address& peer)
    : context_(context),
      control_(&control),
      id_(control.id()),
      peer_text_(peer.text()),
      retry_(LinkIdHash{}(id_)),
      path_(context.device == nullptr ? nullptr : context.device->make_path()),
      next_write_(static_cast<uint32_t>(context.options.first_number)),
      next_exposure_(next_write_ + 1) {
  ++context_.links_off_path;
  if (path_ != nullptr) path_->link = this;
  begin_generation(0);
}

SwitchingLink::~SwitchingLink() {
  set_deadline(kNever);
  if (phase_ != Phase::kFast) --context_.links_off_path;
}

void SwitchingLink::set_phase(Phase phase) {
  if (phase_ == Phase::kFast && phase != Phase::kFast) ++context_.links_off_path;
  if (phase_ != Phase::kFast && phase == Phase::kFast) --context_.links_off_path;
  phase_ = phase;
}

void SwitchingLink::set_deadline(Instant deadline) {
  deadline_ = deadline;
  if (deadline == kNever) {
    context_.with_timer.erase(this);
  } else {
    context_.with_timer.insert(this);
    context_.earliest_timer = std::min(context_.earliest_timer, deadline);
  }
}

void SwitchingLink::mark_dirty() {
  if (dirty) return;
  dirty = true;
  context_.dirty.push_back(this);
}

std::vector<PathStats> SwitchingLink::path_stats() const {
  std::vector<PathStats> ways;
  if (control_ != nullptr) ways = control_->path_stats();
  if (phase_ == Phase::kFast) {
    for (PathStats& way : ways) way.in_use = false;
  }
  if (path_ == nullptr) return ways;
  PathStats fast = path_->stats();
  fast.in_use = phase_ == Phase::kFast;
  const bool ever = fast.traffic.packets_sent + fast.traffic.packets_received > 0;
  if (fast.in_use || ever) ways.push_back(fast);
  return ways;
}

void SwitchingLink::emit(Event::Kind kind, uint32_t token) {
  if (closed_) return;
  context_.events.push_back({{kind, this, token, {}, {}}, std::nullopt});
}

bool SwitchingLink::send_frame(const FrameBytes& frame) {
  ROCECOLL_CHECK(!closed_ && !frame.empty() && frame.size() <= context_.options.max_frame_bytes);
  if (phase_ == Phase::kDown) return true;
  mark_dirty();
  if (waiting_frames_.empty() && !move_owed_) {
    if (phase_ == Phase::kFast) return path_->push_frame(frame);
    if (on_control_ && control_queue_.empty() && frame.size() < context_.max_control_frame_bytes) {
      return send_over_control(frame);
    }
  }
  if (waiting_frames_.size() >= kMaxWaitingFrames) return false;
  frame.append_to(waiting_frames_.emplace_back());
  return true;
}

// A peer that has yet to hear that the faster path carries does not take what is there.
uint64_t SwitchingLink::unsent_frames() const {
  if (phase_ == Phase::kDown) return unsent_when_down_;
  uint64_t unsent = waiting_frames_.size() + control_queue_.size();
  if (control_ != nullptr) unsent += control_->unsent_frames();
  if (path_ == nullptr) return unsent;
  // Between two generations what the peer has not acknowledged may have to go out again.
  if (phase_ == Phase::kFast) return unsent + path_->unsent();
  return unsent + (path_->empty() ? 0 : 1);
}

bool SwitchingLink::write(const RemoteSlice& to, LocalSlice from, uint32_t token) {
  ROCECOLL_CHECK(!closed_ && from.size > 0 && from.size == to.length);
  if (phase_ == Phase::kDown) return true;
  if (writes_.size() == kMaxPendingWrites) return false;
  const uint32_t number = next_write_++;
  writes_[number] = {to, from, token};
  // Into a slice, perhaps, that the faster path had exposed before it was given up.
  const bool over_control =
      on_control_ || OnControlPath(to) || exposed_by_peer_.contains(ExposedNumber(to));
  (over_control ? control_writes_ : new_writes_).push_back(number);
  mark_dirty();
  return true;
}

RemoteSlice SwitchingLink::expose(LocalSlice into, uint32_t token) {
  ROCECOLL_CHECK(!closed_ && into.size > 0);
  // After 2^32 exposures numbers come again, but for those of slices that are still exposed.
  while (exposures_.contains(next_exposure_)) ++next_exposure_;
  const uint32_t number = next_exposure_++;
  Exposure& exposure = exposures_[number] = {into, token, std::nullopt};
  const RemoteSlice nowhere{0, into.size, uint64_t{number} << 32};
  if (phase_ == Phase::kDown) return nowhere;
  if (!on_control_ && context_.usable()) {
    const Result<RemoteSlice> slice = path_->expose(number, into);
    if (slice.ok()) return slice.value();
    const SwitchingWords& words = context_.options.words;
    announce(words.not_exposed + ", so that large messages go over " + words.control + ": " +
                 slice.status().message(),
             context_.options.expected);
  }
  expose_on_control(number, exposure);
  return nowhere;
}

void SwitchingLink::expose_on_control(uint32_t number, Exposure& exposure) {
  exposure.on_control = control_->expose(exposure.into, number);
  say(WriteExposed({number, *exposure.on_control}));
}

void SwitchingLink::unexpose(const RemoteSlice& slice) {
  const auto found = exposures_.find(ExposedNumber(slice));
  ROCECOLL_CHECK(found != exposures_.end());
  const bool untouched = path_ == nullptr || path_->take_back(found->first);
  ROCECOLL_CHECK(untouched);
  Exposure& exposure = found->second;
  if (exposure.on_control && phase_ != Phase::kDown) {
    control_->unexpose(*exposure.on_control);
    say(WriteExposed({found->first, {}}));
  }
  exposures_.erase(found);
}

void SwitchingLink::go_down(Status why) {
  if (phase_ == Phase::kDown) return;
  unsent_when_down_ = waiting_frames_.size();
  if (on_control_ && control_ != nullptr) unsent_when_down_ += control_->unsent_frames();
  if (path_ != nullptr) path_->fail();
  drop_early_frames();
  set_phase(Phase::kDown);
  set_deadline(kNever);
  down_ = std::move(why);
  emit(Event::Kind::kDown, 0);
}

// On return neither path's peer can reach what was lent to us.
void SwitchingLink::abandon_lent_memory() {
  if (path_ != nullptr) {
    path_->fail();
    context_.drain(*this);
    path_->forget_lent();
  }
  writes_.clear();
  exposures_.clear();
  new_writes_.clear();
  control_writes_.clear();
}

bool SwitchingLink::lent_to_control() const {
  return std::ranges::any_of(writes_, [](const auto& entry) { return entry.second.on_control; }) ||
         std::ranges::any_of(exposures_,
                             [](const auto& entry) { return entry.second.on_control.has_value(); });
}

void SwitchingLink::destroy_path() {
  if (path_ != nullptr) path_->destroy();
}

void SwitchingLink::close(const Status& why) {
  ROCECOLL_CHECK(!closed_);
  closed_ = true;
  std::erase_if(context_.events, [this](const SwitchingPendingEvent& pending) {
    if (pending.event.link != this) return false;
    if (pending.lease && context_.device->release(*pending.lease) != nullptr) mark_dirty();
    return true;
  });
  drop_early_frames();
  if (why.ok() && phase_ != Phase::kDown) {
    close_in_good_order();
  } else {
    abandon_lent_memory();
    // A link that went down while its control path lives must not look like one that leaves.
    close_control(phase_ == Phase::kDown ? down_ : why);
  }
}

void SwitchingLink::close_in_good_order() {
  const bool lent = !writes_.empty() || !exposures_.empty();
  const bool undecided = (phase_ == Phase::kOffering || phase_ == Phase::kProving) && !our_verdict_;
  const bool at_first = undecided && generation_ == 0;
  if (lent && (on_control_ || lent_to_control())) {
    // Only its end takes memory back from the control path.
    on_control_ = on_control_ || at_first;
    pump_control_queue();
    pump_control_frames();
    abandon_lent_memory();
    close_control({});
    return;
  }
  if (lent) {
    const bool carried = phase_ == Phase::kFast;
    abandon_lent_memory();
    if (carried) break_path(kLeaving);
  }
  if (at_first || (undecided && on_control_)) {
    say_verdict(false, kLeaving);
    carry_over_control(kLeaving);
  } else if (undecided && lent) {
    on_path_failure(kLeaving);  // its streams have been failed with what was lent
  }
  if (path_ != nullptr) path_->request_acknowledgement();
  mark_dirty();
}

void SwitchingLink::close_control(const Status& why) {
  context_.finished.push_back(control_);
  std::exchange(control_, nullptr)->close(why);
}

// Once the peer has, or the control path will bring it, all that was accepted.
void SwitchingLink::finish_closing() {
  if (!closing() || !waiting_frames_.empty()) return;
  const bool all_acknowledged = phase_ == Phase::kFast && path_->empty();
  if (!on_control_ && !all_acknowledged) return;
  if (all_acknowledged && !goodbye_said_) {
    say(WriteGoodbye(path_->pushed()));
    goodbye_said_ = true;
  }
  if (!pump_control_queue()) return;
  destroy_path();
  close_control({});
}

void SwitchingLink::on_device_down() {
  if (phase_ == Phase::kFast) {
    end_generation(context_.unusable);
  } else if (phase_ == Phase::kProving || phase_ == Phase::kOffering) {
    on_path_failure(context_.unusable);
  }
}

void SwitchingLink::on_device_up() {
  if (phase_ == Phase::kControl && returns()) set_deadline(retry_.soon(context_.now));
}

void SwitchingLink::on_timer() {
  set_deadline(kNever);
  if (phase_ == Phase::kControl) {
    try_again();
  } else if (held_down_) {
    go_down(*std::exchange(held_down_, std::nullopt));
  } else if (phase_ == Phase::kProving) {
    on_proof_timeout();
  } else if (phase_ == Phase::kDraining) {
    destroy_path();
    continue_draining();
  } else if (phase_ == Phase::kFast) {
    end_generation("a further port may carry");
  }
}

void SwitchingLink::heartbeat_if_silent() {
  if (control_ == nullptr) return;
  const auto contact = control_->contact();
  const Duration silence = kMissedHeartbeats * context_.options.heartbeat_interval;
  if (contact && context_.now - contact->heard_at >= silence) send_heartbeat();
}

void SwitchingLink::send_heartbeat() {
  if (phase_ != Phase::kFast) return;
  if (context_.now - last_heartbeat_ < context_.options.heartbeat_interval) return;
  last_heartbeat_ = context_.now;
  path_->send_heartbeat();
  mark_dirty();
}

void SwitchingLink::on_path(const FastEvent& event) {
  mark_dirty();
  const bool sent_by_peer = event.kind == FastEvent::Kind::kFrame ||
                            event.kind == FastEvent::Kind::kLanded ||
                            event.kind == FastEvent::Kind::kHeartbeat;
  if (sent_by_peer && control_ != nullptr) control_->vouch(context_.now);
  switch (event.kind) {
    case FastEvent::Kind::kFailed:
      return on_path_failure(event.text);
    case FastEvent::Kind::kFewerEnds:
      return phase_ == Phase::kFast ? end_generation(event.text) : on_path_failure(event.text);
    case FastEvent::Kind::kStray:  // into what close() has taken back, if it has
      if (!closed_ && phase_ != Phase::kDown) {
        return on_path_failure("a write into a slice that is not exposed arrived");
      }
      break;
    case FastEvent::Kind::kFrame:
      on_path_frame(event);
      break;
    case FastEvent::Kind::kLanded: {
      const auto found = exposures_.find(event.number);
      ROCECOLL_CHECK(found != exposures_.end());
      emit(Event::Kind::kLanded, found->second.token);
      exposures_.erase(found);
      break;
    }
    case FastEvent::Kind::kMoreEnds:
      more_ends_ = true;
      if (phase_ == Phase::kFast && !held_down_) plan_completion();
      break;
    case FastEvent::Kind::kHeartbeat:  // the peer does not hear us, perhaps
      send_heartbeat();
      break;
    case FastEvent::Kind::kProgress:
      break;
  }
  if (held_down_ && Total(path_->received()) >= *goodbye_) {
    on_timer();
  } else if (phase_ == Phase::kDraining) {
    continue_draining();
  } else if (phase_ == Phase::kProving) {
    continue_proving();
  } else if (phase_ == Phase::kFast) {
    take_written();
  }
}

void SwitchingLink::on_path_frame(const FastEvent& event) {
  if (closed_ || phase_ == Phase::kDown) {
    context_.device->release(event.lease);
    return;
  }
  (peer_moved() ? context_.events : early_frames_)
      .push_back({{Event::Kind::kFrame, this, 0, event.frame, {}}, event.lease});
}

void SwitchingLink::drop_early_frames() {
  for (const SwitchingPendingEvent& early : early_frames_) {
    if (context_.device->release(*early.lease) != nullptr) mark_dirty();
  }
  early_frames_.clear();
}

void SwitchingLink::take_written() {
  if (path_ == nullptr) return;
  for (const uint32_t number : path_->take_written()) {
    const auto found = writes_.find(number);
    ROCECOLL_CHECK(found != writes_.end());
    emit(Event::Kind::kWritten, found->second.token);
    writes_.erase(found);
  }
}

// The control path's last frame has gone. False: it has no room for the word of that.
bool SwitchingLink::move() {
  if (!move_owed_) return true;
  if (!control_queue_.empty() || sent_of_frame_ > 0) return false;
  move_owed_ = !control_->send_frame(WriteMoved(returning_in_));
  return !move_owed_;
}

void SwitchingLink::pump_path() {
  while (!waiting_frames_.empty() && path_->push_frame(waiting_frames_.front())) {
    waiting_frames_.pop_front();
  }
  for (; !new_writes_.empty(); new_writes_.pop_front()) {
    const Write& write = writes_.at(new_writes_.front());
    path_->push_write(new_writes_.front(), write.to, write.from);
  }
  if (const Status status = path_->pump(); !status.ok()) on_path_failure(status.message());
}

bool SwitchingLink::pump() {
  if (control_ == nullptr || phase_ == Phase::kDown) return true;
  bool all_said = pump_control_queue();
  all_said = all_said && pump_control_frames() && move();
  if (phase_ == Phase::kFast && !move_owed_) pump_path();
  all_said = pump_control_writes() && all_said;
  finish_closing();
  return all_said || control_ == nullptr;
}

}  // namespace rocecoll
