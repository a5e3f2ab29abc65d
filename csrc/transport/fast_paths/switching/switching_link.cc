// SPDX-License-Identifier: Apache-2.0
// The owner's side of a link: what Link promises.
#include "transport/fast_paths/switching/switching_link.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace rocecoll {
SwitchingLink::SwitchingLink(SwitchingContext& context, Link& control, const Address& peer)
    : context_(context),
      id_(control.id()),
      peer_text_(peer.text()),
      control_(context, control),
      path_(context.device == nullptr ? nullptr : context.device->make_path()),
      handshake_(context.options.words),
      prospects_(context, peer_text_, LinkIdHash{}(id_)),
      log_(context, id_, peer_text_),
      memory_(static_cast<uint32_t>(context.options.first_number)) {
  ++context_.links_off_path;
  if (path_ != nullptr) path_->owner = this;
  make_offer();
}

SwitchingLink::~SwitchingLink() {
  set_deadline(kNever);
  if (!handshake_.carries()) --context_.links_off_path;
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
  if (!finished()) ways = control_.link()->path_stats();
  if (handshake_.carries()) {
    for (PathStats& way : ways) way.in_use = false;
  }
  if (path_ == nullptr) return ways;
  PathStats fast = path_->stats();
  fast.in_use = handshake_.carries();
  const bool ever = fast.traffic.packets_sent + fast.traffic.packets_received > 0;
  if (fast.in_use || ever) ways.push_back(fast);
  return ways;
}

// Without a token: of memory that has been abandoned.
void SwitchingLink::emit(Event::Kind kind, std::optional<uint32_t> token) {
  if (closed_ || !token) return;
  context_.events.push_back({{kind, this, *token, {}, {}}, std::nullopt});
}

bool SwitchingLink::send_frame(const FrameBytes& frame) {
  ROCECOLL_CHECK(!closed_ && !frame.empty() && frame.size() <= context_.options.max_frame_bytes);
  if (down()) return true;
  mark_dirty();
  if (waiting_frames_.empty() && !control_.owes_moved()) {
    if (handshake_.carries()) return path_->push_frame(frame);
    if (handshake_.control_carries() && control_.takes(frame)) return control_.send(frame);
  }
  if (waiting_frames_.size() >= kMaxWaitingFrames) return false;
  frame.append_to(waiting_frames_.emplace_back());
  return true;
}

// A peer that has not yet learned that the fast path carries does not take what is there.
uint64_t SwitchingLink::unsent_frames() const {
  if (down()) return unsent_when_down_;
  const uint64_t unsent = waiting_frames_.size() + control_.unsent();
  if (path_ == nullptr) return unsent;
  // Between two generations what the peer has not acknowledged may have to go out again.
  if (handshake_.carries()) return unsent + path_->unsent();
  return unsent + (path_->empty() ? 0 : 1);
}

bool SwitchingLink::write(const RemoteSlice& to, LocalSlice from, uint32_t token) {
  ROCECOLL_CHECK(!closed_ && from.size > 0 && from.size == to.length);
  if (down()) return true;
  if (memory_.pending_writes() == kMaxPendingWrites) return false;
  memory_.add_write(to, from, token, handshake_.control_carries());
  mark_dirty();
  return true;
}

RemoteSlice SwitchingLink::expose(LocalSlice into, uint32_t token) {
  ROCECOLL_CHECK(!closed_ && into.size > 0);
  const uint32_t number = memory_.add_exposure(into, token);
  const RemoteSlice nowhere{0, into.size, uint64_t{number} << 32};
  if (down()) return nowhere;
  if (!handshake_.control_carries() && context_.usable()) {
    const Result<RemoteSlice> slice = path_->expose(number, into);
    if (slice.ok()) return slice.value();
    const SwitchingWords& words = context_.options.words;
    log_.announce(words.not_exposed + ", so that large messages go over " + words.control + ": " +
                      slice.status().message(),
                  context_.options.expected);
  }
  say(memory_.expose_on_control(number, *control_.link()));
  return nowhere;
}

void SwitchingLink::unexpose(const RemoteSlice& slice) {
  const uint32_t number = ExposedNumber(slice);
  const std::optional<RemoteSlice> on_control = memory_.take_back(number);
  const bool untouched = path_ == nullptr || path_->take_back(number);
  ROCECOLL_CHECK(untouched);
  if (!on_control || down()) return;
  control_.link()->unexpose(*on_control);
  say(WriteExposed({number, {}}));
}

void SwitchingLink::go_down(Status why) {
  if (down()) return;
  unsent_when_down_ = waiting_frames_.size();
  if (handshake_.control_carries() && !finished()) {
    unsent_when_down_ += control_.link()->unsent_frames();
  }
  if (path_ != nullptr) path_->fail();
  drop_early_frames();
  if (handshake_.carries()) ++context_.links_off_path;
  handshake_.stop();
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
  memory_.abandon();
}

void SwitchingLink::destroy_path() {
  if (path_ != nullptr) path_->destroy();
}

void SwitchingLink::close(const Status& why) {
  ROCECOLL_CHECK(!closed_);
  closed_ = true;
  log_.close();
  prospects_.make_final();
  std::erase_if(context_.events, [this](const SwitchingPendingEvent& pending) {
    if (pending.event.link != this) return false;
    if (pending.lease && context_.device->release(*pending.lease) != nullptr) mark_dirty();
    return true;
  });
  drop_early_frames();
  if (why.ok() && !down() && !held_down_) {
    close_in_good_order();
  } else {
    go_down(why);
    abandon_lent_memory();
    // A link that went down while its control path lives must not look like one that leaves.
    control_.close(down_);
  }
}

void SwitchingLink::close_in_good_order() {
  const bool lent = !memory_.empty();
  const bool undecided = handshake_.undecided();
  const bool at_first = undecided && handshake_.generation() == 0;
  const bool on_control = handshake_.control_carries();
  if (lent && (on_control || memory_.lent_to_control())) {
    // Only its end takes memory back from the control path.
    control_.pump_said();
    control_.pump_frames(waiting_frames_, on_control || at_first);
    abandon_lent_memory();
    control_.close({});
    return;
  }
  if (lent) {
    const bool carried = handshake_.carries();
    abandon_lent_memory();
    if (carried) break_path(kLeaving);
  }
  if (at_first || (undecided && on_control)) {
    follow(handshake_.withdraw(kLeaving));
  } else if (undecided && lent) {
    on_path_failure(kLeaving);  // its streams have been failed with what was lent
  }
  if (path_ != nullptr) path_->request_acknowledgement();
  mark_dirty();
}

// Closes the control path once the peer has all that was accepted, or the control path will bring
// it. Also once the link is down, so that the peer learns why.
void SwitchingLink::finish_closing() {
  if (!closing()) return;
  if (down()) {
    destroy_path();
    control_.close(down_);
    return;
  }
  if (!waiting_frames_.empty()) return;
  const bool all_acknowledged = handshake_.carries() && path_->empty();
  if (!handshake_.control_carries() && !all_acknowledged) return;
  if (all_acknowledged && !goodbye_said_) {
    say(WriteGoodbye(path_->pushed()));
    goodbye_said_ = true;
  }
  if (!control_.pump_said()) return;
  destroy_path();
  control_.close({});
}

void SwitchingLink::on_timer() {
  set_deadline(kNever);
  if (handshake_.phase() == Phase::kControl) {
    if (const auto later = prospects_.put_off()) {
      set_deadline(*later);
    } else {
      begin_generation();
    }
  } else if (held_down_) {
    go_down(*std::exchange(held_down_, std::nullopt));
  } else if (handshake_.proving()) {
    on_proof_timeout();
  } else if (handshake_.phase() == Phase::kDraining) {
    destroy_path();
    continue_draining();
  } else if (handshake_.carries()) {
    end_generation("a further port may carry");
  }
}

bool SwitchingLink::pump() {
  if (down()) finish_closing();
  if (finished() || down()) return true;
  bool all_said = control_.pump_said() &&
                  control_.pump_frames(waiting_frames_, handshake_.control_carries()) &&
                  control_.pump_moved();
  if (handshake_.carries() && !control_.owes_moved()) pump_path();
  all_said = pump_control_writes() && all_said;
  finish_closing();
  return all_said || finished();
}

void SwitchingLink::pump_path() {
  while (!waiting_frames_.empty() && path_->push_frame(waiting_frames_.front())) {
    waiting_frames_.pop_front();
  }
  memory_.push_writes(*path_);
  if (const Status status = path_->pump(); !status.ok()) on_path_failure(status.message());
}

bool SwitchingLink::pump_control_writes() {
  const LentMemory::Pumped pumped = memory_.pump_writes(*control_.link());
  if (pumped == LentMemory::Pumped::kWrongSize) go_down(protocol_error("a slice of another size"));
  return pumped != LentMemory::Pumped::kNoRoom;
}

}  // namespace rocecoll
