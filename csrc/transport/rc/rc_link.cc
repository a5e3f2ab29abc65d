// SPDX-License-Identifier: Apache-2.0
// The owner's side of an RC link: what Link promises.
#include "transport/rc/rc_link.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace rocecoll {

RcLink::RcLink(RcContext& context, Link& control, const Address& peer)
    : context_(context),
      control_(&control),
      id_(control.id()),
      peer_text_(peer.text()),
      next_write_(static_cast<uint32_t>(context.options.first_number)),
      next_exposure_(next_write_ + 1) {
  ++context_.links_off_roce;
  begin_generation(0);
}

RcLink::~RcLink() {
  give_up_streams();
  set_deadline(kNever);
  if (phase_ != Phase::kRoce) --context_.links_off_roce;
}

void RcLink::set_phase(Phase phase) {
  if (phase_ == Phase::kRoce && phase != Phase::kRoce) ++context_.links_off_roce;
  if (phase_ != Phase::kRoce && phase == Phase::kRoce) --context_.links_off_roce;
  phase_ = phase;
}

void RcLink::set_deadline(Instant deadline) {
  deadline_ = deadline;
  if (deadline == kNever) {
    context_.with_timer.erase(this);
  } else {
    context_.with_timer.insert(this);
  }
}

void RcLink::mark_dirty() {
  if (dirty) return;
  dirty = true;
  context_.dirty.push_back(this);
}

void RcLink::emit(Event::Kind kind, uint32_t token) {
  if (closed_) return;
  context_.events.push_back({{kind, this, token, {}, {}}, std::nullopt, 0});
}

bool RcLink::send_frame(std::span<const std::byte> frame) {
  ROCECOLL_CHECK(!closed_ && !frame.empty() && frame.size() <= RcStream::kMaxFrameBytes);
  if (phase_ == Phase::kDown) return true;
  mark_dirty();
  if (waiting_frames_.empty()) {
    if (phase_ == Phase::kRoce) return streams_.front()->push_frame(frame);
    if (phase_ == Phase::kControl && control_queue_.empty() &&
        frame.size() < context_.max_control_frame_bytes) {
      return send_over_control(frame);
    }
  }
  if (waiting_frames_.size() >= kMaxWaitingFrames) return false;
  waiting_frames_.emplace_back(frame.begin(), frame.end());
  return true;
}

bool RcLink::write(const RemoteSlice& to, LocalSlice from, uint32_t token) {
  ROCECOLL_CHECK(!closed_ && from.size > 0 && from.size == to.length);
  if (phase_ == Phase::kDown) return true;
  if (writes_.size() == kMaxPendingWrites) return false;
  auto write = std::make_unique<RcWrite>();
  write->id = next_write_++;
  write->to = to;
  write->from = from;
  write->token = token;
  (phase_ == Phase::kControl || OnControlPath(to) ? control_writes_ : new_writes_)
      .push_back(write->id);
  writes_.emplace(write->id, std::move(write));
  mark_dirty();
  return true;
}

RemoteSlice RcLink::expose(LocalSlice into, uint32_t token) {
  ROCECOLL_CHECK(!closed_ && into.size > 0);
  // After 2^32 exposures numbers come again, but for those of slices that are still exposed.
  while (exposures_.contains(next_exposure_)) ++next_exposure_;
  const uint32_t number = next_exposure_++;
  Exposure& exposure = exposures_[number];
  exposure.into = into;
  exposure.token = token;
  RemoteSlice slice{0, into.size, uint64_t{number} << 32};
  if (phase_ == Phase::kDown) return slice;
  if (phase_ != Phase::kControl && context_.usable()) {
    auto lease = context_.memory->lend_for_write(into);
    if (lease.ok()) {
      exposure.lease = lease.take();
      slice.base = reinterpret_cast<uint64_t>(exposure.lease.data);
      slice.key |= exposure.lease.remote_key;
      return slice;
    }
    announce("memory cannot be registered, so that large messages go over UDP: " +
                 lease.status().message(),
             /*warning=*/true);
  }
  expose_on_control(number, exposure);
  return slice;
}

void RcLink::expose_on_control(uint32_t number, Exposure& exposure) {
  if (exposure.lease.held) context_.memory->give_back(exposure.lease);
  exposure.on_control = control_->expose(exposure.into, number);
  say(WriteExposed({number, *exposure.on_control}));
}

void RcLink::unexpose(const RemoteSlice& slice) {
  const auto found = exposures_.find(ExposedNumber(slice));
  ROCECOLL_CHECK(found != exposures_.end() && found->second.parts_landed == 0);
  Exposure& exposure = found->second;
  if (exposure.lease.held) context_.memory->give_back(exposure.lease);
  if (exposure.on_control && phase_ != Phase::kDown) {
    control_->unexpose(*exposure.on_control);
    say(WriteExposed({found->first, {}}));
  }
  exposures_.erase(found);
}

void RcLink::go_down(Status why) {
  if (phase_ == Phase::kDown) return;
  for (const auto& stream : streams_) stream->fail();
  set_phase(Phase::kDown);
  set_deadline(kNever);
  down_ = std::move(why);
  emit(Event::Kind::kDown, 0);
}

// On return neither the device nor the control path's peer can reach what was lent to us.
void RcLink::abandon_lent_memory() {
  for (const auto& stream : streams_) stream->fail();
  context_.drain(*this);
  for (const auto& stream : streams_) stream->forget_writes();
  for (auto& [id, write] : writes_) {
    if (write->lease.held) context_.memory->give_back(write->lease);
  }
  for (auto& [number, exposure] : exposures_) {
    if (exposure.lease.held) context_.memory->give_back(exposure.lease);
  }
  writes_.clear();
  exposures_.clear();
  new_writes_.clear();
  control_writes_.clear();
}

void RcLink::close(const Status& why) {
  ROCECOLL_CHECK(!closed_);
  closed_ = true;
  std::erase_if(context_.events, [this](const RcPendingEvent& pending) {
    if (pending.event.link != this) return false;
    if (pending.receive_id) {
      context_.receives->repost(*pending.receive_id);
      on_reposted(pending.queue_pair);
    }
    return true;
  });
  if (why.ok() && phase_ != Phase::kDown) {
    close_in_good_order();
  } else {
    abandon_lent_memory();
    // A link that went down while its control path lives must not look like one that leaves.
    close_control(phase_ == Phase::kDown ? down_ : why);
  }
}

void RcLink::close_in_good_order() {
  const bool lent = !writes_.empty() || !exposures_.empty();
  const bool undecided = (phase_ == Phase::kOffering || phase_ == Phase::kProving) && !our_verdict_;
  if (lent && phase_ == Phase::kControl) {
    // Only its end takes memory back from the control path.
    pump_control_queue();
    pump_control_frames();
    abandon_lent_memory();
    close_control({});
    return;
  }
  if (lent) {
    const bool carried = phase_ == Phase::kRoce;
    abandon_lent_memory();
    if (carried) break_streams("this rank leaves");
  }
  if (undecided && generation_ == 0) {
    say_verdict(false, "the peer leaves");
    carry_over_control("this rank leaves");
  } else if (undecided && lent) {
    on_stream_failure("this rank leaves");  // its streams have been failed with what was lent
  }
  for (const auto& stream : streams_) stream->request_acknowledgement();
  mark_dirty();
}

void RcLink::close_control(const Status& why) {
  std::exchange(control_, nullptr)->close(why);
  ++context_.finished_links;
}

// Once the peer has, or the control path will bring it, all that was accepted.
void RcLink::finish_closing() {
  if (!closing() || !waiting_frames_.empty()) return;
  const bool all_acknowledged =
      phase_ == Phase::kRoce &&
      std::ranges::all_of(streams_, [](const auto& stream) { return stream->empty(); });
  if (phase_ != Phase::kControl && !all_acknowledged) return;
  if (all_acknowledged && !goodbye_said_) {
    say(WriteGoodbye(streams_.front()->pushed()));
    goodbye_said_ = true;
  }
  if (!pump_control_queue()) return;
  destroy_queue_pairs();
  close_control({});
}

void RcLink::on_device_down() {
  if (phase_ == Phase::kRoce) {
    break_streams(context_.unusable);
  } else if (phase_ == Phase::kProving || phase_ == Phase::kOffering) {
    on_stream_failure(context_.unusable);
  }
}

void RcLink::on_timer() {
  set_deadline(kNever);
  if (held_down_) {
    go_down(*std::exchange(held_down_, std::nullopt));
  } else if (phase_ == Phase::kProving) {
    on_stream_failure(
        "no answer over RoCE within " +
        std::to_string(context_.options.proof_timeout / std::chrono::milliseconds(1)) + " ms");
  } else if (phase_ == Phase::kDraining) {
    destroy_queue_pairs();
    continue_draining();
  }
}

bool RcLink::pump() {
  if (control_ == nullptr || phase_ == Phase::kDown) return true;
  bool all_said = pump_control_queue();
  if (phase_ == Phase::kRoce) pump_streams();
  if (phase_ == Phase::kControl) all_said = all_said && pump_control_frames();
  all_said = pump_control_writes() && all_said;
  finish_closing();
  return all_said || control_ == nullptr;
}

}  // namespace rocecoll
