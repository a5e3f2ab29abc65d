// SPDX-License-Identifier: Apache-2.0
// What a link sends and receives over its control path.
#include <algorithm>
#include <iterator>
#include <utility>

#include "base/check.h"
#include "transport/fast_paths/switching/switching_link.h"

namespace rocecoll {
namespace {

// For messages that a peer has sent before it left, and whose completions are on their way.
constexpr Duration kGoodbyeTime = std::chrono::seconds(1);

Status ProtocolError(const SwitchingOptions& options, const std::string& what) {
  return Status(StatusCode::kNetwork, "the peer broke the " + options.words.path + " protocol (" +
                                          what + "): use one version everywhere");
}

}  // namespace

void SwitchingLink::say(WireBytes message) {
  control_queue_.push_back(std::move(message));
  mark_dirty();
}

// False: something has to wait for room.
bool SwitchingLink::pump_control_queue() {
  while (!control_queue_.empty()) {
    if (!control_->send_frame(control_queue_.front())) return false;
    control_queue_.pop_front();
  }
  return true;
}

bool SwitchingLink::send_over_control(const FrameBytes& frame) {
  WireBytes& head = context_.control_frame_head;
  head.assign(1, static_cast<std::byte>(ControlType::kFrame));
  head.insert(head.end(), frame.head.begin(), frame.head.end());
  return control_->send_frame({head, frame.body});
}

// In pieces where the control path's frames are shorter than ours. A frame that has been begun here
// ends here.
bool SwitchingLink::pump_control_frames() {
  const size_t piece_bytes = context_.max_control_frame_bytes - 1;
  while (!waiting_frames_.empty() && (on_control_ || sent_of_frame_ > 0)) {
    const WireBytes& frame = waiting_frames_.front();
    while (sent_of_frame_ < frame.size()) {
      const size_t size = std::min(piece_bytes, frame.size() - sent_of_frame_);
      const bool last = sent_of_frame_ + size == frame.size();
      WireBytes piece{static_cast<std::byte>(last ? ControlType::kFrame : ControlType::kPiece)};
      const auto begin = frame.begin() + static_cast<std::ptrdiff_t>(sent_of_frame_);
      piece.insert(piece.end(), begin, begin + static_cast<std::ptrdiff_t>(size));
      if (!control_->send_frame(piece)) return false;
      sent_of_frame_ += size;
    }
    sent_of_frame_ = 0;
    waiting_frames_.pop_front();
  }
  return true;
}

// A write waits until the peer has said where its slice lies on the control path.
bool SwitchingLink::pump_control_writes() {
  size_t looked_at = control_writes_.size();
  while (looked_at-- > 0) {
    const uint32_t id = control_writes_.front();
    Write& write = writes_.at(id);
    const auto exposed = exposed_by_peer_.find(ExposedNumber(write.to));
    if (exposed == exposed_by_peer_.end()) {
      control_writes_.push_back(id);
    } else if (exposed->second.length != write.from.size) {
      go_down(ProtocolError(context_.options, "a slice of another size"));
      return true;
    } else if (control_->write(exposed->second, write.from, id)) {
      write.on_control = true;
      exposed_by_peer_.erase(exposed);
    } else {
      return false;
    }
    control_writes_.pop_front();
  }
  return true;
}

void SwitchingLink::on_control(const Event& event) {
  switch (event.kind) {
    case Event::Kind::kFrame:
      if (phase_ != Phase::kDown) on_control_frame(event.frame);
      break;
    case Event::Kind::kWritten: {
      const auto found = writes_.find(event.token);
      if (found == writes_.end()) break;  // abandoned
      emit(Event::Kind::kWritten, found->second.token);
      writes_.erase(found);
      break;
    }
    case Event::Kind::kLanded: {
      const auto found = exposures_.find(event.token);
      if (found == exposures_.end()) break;
      emit(Event::Kind::kLanded, found->second.token);
      exposures_.erase(found);
      break;
    }
    case Event::Kind::kDown:
      on_control_down(control_->status());
      break;
    case Event::Kind::kNotice:
    case Event::Kind::kIncoming:
      break;
  }
  mark_dirty();
}

void SwitchingLink::on_control_frame(std::span<const std::byte> frame) {
  const auto malformed = [this](const char* what) {
    go_down(ProtocolError(context_.options, what));
  };
  switch (static_cast<ControlType>(frame.front())) {
    case ControlType::kPiece:
      assembling_.insert(assembling_.end(), frame.begin() + 1, frame.end());
      if (assembling_.size() > context_.options.max_frame_bytes) malformed("a frame without end");
      return;
    case ControlType::kFrame:
      return on_peer_frame(frame.subspan(1));
    case ControlType::kOffer:
      if (auto offer = ParseOffer(frame)) return on_offer(std::move(*offer));
      return malformed("OFFER");
    case ControlType::kReady:
      if (const auto generation = ParseGeneration(frame)) return on_ready(*generation);
      return malformed("READY");
    case ControlType::kVerdict:
      if (const auto verdict = ParseVerdict(frame)) return on_verdict(*verdict);
      return malformed("VERDICT");
    case ControlType::kExposed: {
      const auto exposed = ParseExposed(frame);
      if (!exposed) return malformed("EXPOSED");
      if (exposed->slice.length == 0) {
        exposed_by_peer_.erase(exposed->number);
      } else {
        exposed_by_peer_[exposed->number] = exposed->slice;
      }
      return;
    }
    case ControlType::kGoodbye:
      if (const auto messages = ParseGoodbye(frame)) {
        goodbye_ = *messages;
        return;
      }
      return malformed("GOODBYE");
    case ControlType::kMoved:
      if (const auto generation = ParseGeneration(frame);
          generation && *generation <= generation_) {
        return on_peer_moved(*generation);
      }
      return malformed("MOVED");
  }
  malformed("an unknown message");
}

void SwitchingLink::on_peer_frame(std::span<const std::byte> frame) {
  if (closed_) return;
  std::span<const std::byte> whole = frame;
  if (!assembling_.empty()) {
    assembling_.insert(assembling_.end(), frame.begin(), frame.end());
    context_.held.push_back(std::exchange(assembling_, {}));
    whole = context_.held.back();
  }
  if (whole.empty() || whole.size() > context_.options.max_frame_bytes) {
    go_down(ProtocolError(context_.options, "the size of a frame"));
    return;
  }
  context_.events.push_back({{Event::Kind::kFrame, this, 0, whole, {}}, std::nullopt});
}

// May be late: said while the path broke again, it says nothing of the generations that follow.
void SwitchingLink::on_peer_moved(uint32_t generation) {
  peer_moved_in_ = generation;
  if (!peer_moved()) return;
  std::ranges::move(early_frames_, std::back_inserter(context_.events));
  early_frames_.clear();
}

void SwitchingLink::on_control_down(const Status& why) {
  if (closed_) {
    destroy_path();
    close_control({});
    return;
  }
  const bool more_to_come = LeftInGoodOrder(why) && phase_ == Phase::kFast && goodbye_ &&
                            Total(path_->received()) < *goodbye_;
  if (more_to_come) {
    held_down_ = why;
    set_deadline(context_.now + kGoodbyeTime);
  } else {
    go_down(why);
  }
}

}  // namespace rocecoll
