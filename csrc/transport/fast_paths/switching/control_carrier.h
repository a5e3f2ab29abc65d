// SPDX-License-Identifier: Apache-2.0
// What a link sends over its control path: what its ends tell each other, and the owner's frames,
// in pieces where the control path's frames are shorter than those.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <utility>

#include "transport/fast_paths/switching/switching_context.h"
#include "transport/fast_paths/switching/switching_wire.h"
#include "transport/transport.h"

namespace rocecoll {

class ControlCarrier {
 public:
  ControlCarrier(SwitchingContext& context, Link& link) : context_(context), link_(&link) {}

  Link* link() const { return link_; }  // null once closed
  void close(const Status& why) {
    context_.finished.push_back(link_);
    std::exchange(link_, nullptr)->close(why);
  }
  // Frames that would be lost if this process ended now.
  uint64_t unsent() const { return said_.size() + (link_ == nullptr ? 0 : link_->unsent_frames()); }

  // Each pump returns false while something has to wait for room.
  void say(WireBytes message) { said_.push_back(std::move(message)); }
  bool pump_said() {
    for (; !said_.empty(); said_.pop_front()) {
      if (!link_->send_frame(said_.front())) return false;
    }
    return true;
  }
  // Whether send() may have this frame: it fits in one piece, and nothing goes before it.
  bool takes(const FrameBytes& frame) const {
    return said_.empty() && frame.size() < context_.max_control_frame_bytes;
  }
  bool send(const FrameBytes& frame) {
    WireBytes& head = context_.control_frame_head;
    head.assign(1, static_cast<std::byte>(ControlType::kFrame));
    head.insert(head.end(), frame.head.begin(), frame.head.end());
    return link_->send_frame({head, frame.body});
  }
  // Takes off the front of `frames` what it has sent: all of them, or only one that has been begun.
  bool pump_frames(std::deque<WireBytes>& frames, bool all) {
    for (; !frames.empty() && (all || amid_frame()); frames.pop_front()) {
      if (!pump_pieces(frames.front())) return false;
      sent_of_frame_ = 0;
    }
    return true;
  }
  // Pieces of the first frame have gone.
  bool amid_frame() const { return sent_of_frame_ > 0; }

  // MOVED has to go, after all that was said and begun, before anything goes over the fast path.
  void owe_moved(uint32_t generation) { owed_moved_ = generation; }
  void forget_moved() { owed_moved_.reset(); }
  bool owes_moved() const { return owed_moved_.has_value(); }
  bool pump_moved() {
    if (!owes_moved()) return true;
    if (!said_.empty() || amid_frame() || !link_->send_frame(WriteMoved(*owed_moved_)))
      return false;
    forget_moved();
    return true;
  }

  // A piece of a frame of the peer's that is not its last. False: the frame is too long.
  bool on_piece(std::span<const std::byte> piece) {
    assembling_.insert(assembling_.end(), piece.begin(), piece.end());
    return assembling_.size() <= context_.options.max_frame_bytes;
  }
  // The whole frame that ends with this piece, lent as events lend. Empty: no frame has this size.
  std::span<const std::byte> on_last_piece(std::span<const std::byte> piece) {
    std::span<const std::byte> whole = piece;
    if (!assembling_.empty()) {
      assembling_.insert(assembling_.end(), piece.begin(), piece.end());
      context_.held.push_back(std::exchange(assembling_, {}));
      whole = context_.held.back();
    }
    return whole.size() <= context_.options.max_frame_bytes ? whole : whole.first(0);
  }

 private:
  bool pump_pieces(const WireBytes& frame) {
    const size_t piece_bytes = context_.max_control_frame_bytes - 1;
    while (sent_of_frame_ < frame.size()) {
      const auto rest = std::span(frame).subspan(sent_of_frame_);
      const size_t size = std::min(piece_bytes, rest.size());
      const auto type = size == rest.size() ? ControlType::kFrame : ControlType::kPiece;
      const std::array head{static_cast<std::byte>(type)};
      if (!link_->send_frame({head, rest.first(size)})) return false;
      sent_of_frame_ += size;
    }
    return true;
  }

  SwitchingContext& context_;
  Link* link_;
  std::deque<WireBytes> said_;
  size_t sent_of_frame_ = 0;
  std::optional<uint32_t> owed_moved_;
  WireBytes assembling_;  // a frame of the peer's
};

}  // namespace rocecoll
