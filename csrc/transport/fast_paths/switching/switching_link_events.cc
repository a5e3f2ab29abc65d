// SPDX-License-Identifier: Apache-2.0
// What the two paths of a link bring.
#include <iterator>
#include <utility>

#include "base/check.h"
#include "transport/fast_paths/switching/switching_link.h"

namespace rocecoll {
namespace {

// For messages that a peer has sent before it left, and whose completions are on their way.
constexpr Duration kGoodbyeTime = std::chrono::seconds(1);
// The control path is silent once this many of the peer's have not come.
constexpr int kMissedHeartbeats = 2;

}  // namespace

Status SwitchingLink::protocol_error(const std::string& what) const {
  return Status(StatusCode::kNetwork, "the peer broke the " + context_.options.words.path +
                                          " protocol (" + what + "): use one version everywhere");
}

void SwitchingLink::on_control(const Event& event) {
  switch (event.kind) {
    case Event::Kind::kFrame:
      if (!down()) on_control_frame(event.frame);
      break;
    case Event::Kind::kWritten:
      emit(Event::Kind::kWritten, memory_.take_written(event.token));
      break;
    case Event::Kind::kLanded:
      emit(Event::Kind::kLanded, memory_.take_landed(event.token));
      break;
    case Event::Kind::kDown:
      on_control_down(control_.link()->status());
      break;
    case Event::Kind::kNotice:
    case Event::Kind::kIncoming:
      break;
  }
  mark_dirty();
}

void SwitchingLink::on_control_frame(std::span<const std::byte> frame) {
  const auto malformed = [this](const char* what) { go_down(protocol_error(what)); };
  switch (static_cast<ControlType>(frame.front())) {
    case ControlType::kPiece:
      if (!control_.on_piece(frame.subspan(1))) malformed("a frame without end");
      return;
    case ControlType::kFrame:
      return on_peer_frame(frame.subspan(1));
    case ControlType::kOffer:
      if (auto offer = ParseOffer(frame)) return follow(handshake_.on_offer(std::move(*offer)));
      return malformed("OFFER");
    case ControlType::kReady:
      if (const auto generation = ParseGeneration(frame)) {
        handshake_.on_ready(*generation);
        return continue_proving();
      }
      return malformed("READY");
    case ControlType::kVerdict:
      if (auto verdict = ParseVerdict(frame)) {
        return follow(handshake_.on_verdict(std::move(*verdict)));
      }
      return malformed("VERDICT");
    case ControlType::kExposed:
      if (const auto exposed = ParseExposed(frame)) return memory_.on_exposed(*exposed);
      return malformed("EXPOSED");
    case ControlType::kGoodbye:
      if ((goodbye_ = ParseGoodbye(frame))) return;
      return malformed("GOODBYE");
    case ControlType::kMoved:
      if (const auto generation = ParseGeneration(frame);
          generation && handshake_.on_moved(*generation)) {
        return take_early_frames();
      }
      return malformed("MOVED");
  }
  malformed("an unknown message");
}

void SwitchingLink::on_peer_frame(std::span<const std::byte> frame) {
  if (closed_) return;
  const std::span<const std::byte> whole = control_.on_last_piece(frame);
  if (whole.empty()) return go_down(protocol_error("the size of a frame"));
  context_.events.push_back({{Event::Kind::kFrame, this, 0, whole, {}}, std::nullopt});
}

void SwitchingLink::on_control_down(const Status& why) {
  if (closed_) {
    destroy_path();
    control_.close({});
    return;
  }
  const bool more_to_come = LeftInGoodOrder(why) && handshake_.carries() && goodbye_ &&
                            Total(path_->received()) < *goodbye_;
  if (more_to_come) {
    held_down_ = why;
    set_deadline(context_.now + kGoodbyeTime);
  } else {
    go_down(why);
  }
}

void SwitchingLink::on_path(const FastEvent& event) {
  mark_dirty();
  const bool sent_by_peer = event.kind == FastEvent::Kind::kFrame ||
                            event.kind == FastEvent::Kind::kLanded ||
                            event.kind == FastEvent::Kind::kHeartbeat;
  if (sent_by_peer && !finished()) control_.link()->vouch(context_.now);
  switch (event.kind) {
    case FastEvent::Kind::kFailed:
      return on_path_failure(event.text);
    case FastEvent::Kind::kFewerEnds:
      return handshake_.carries() ? end_generation(event.text) : on_path_failure(event.text);
    case FastEvent::Kind::kStray:  // into what close() has taken back, if it has
      if (!closed_ && !down()) {
        return on_path_failure("a write into a slice that is not exposed arrived");
      }
      break;
    case FastEvent::Kind::kFrame:
      on_path_frame(event);
      break;
    case FastEvent::Kind::kLanded: {
      const std::optional<uint32_t> token = memory_.take_landed(event.number);
      ROCECOLL_CHECK(token);
      emit(Event::Kind::kLanded, token);
      break;
    }
    case FastEvent::Kind::kMoreEnds:
      prospects_.on_more_ends();
      if (handshake_.carries() && !held_down_) {
        set_deadline(prospects_.completion(path_->complete()));
      }
      break;
    case FastEvent::Kind::kHeartbeat:  // the peer does not hear us, perhaps
      send_heartbeat();
      break;
    case FastEvent::Kind::kProgress:
      break;
  }
  if (held_down_ && Total(path_->received()) >= *goodbye_) {
    on_timer();
  } else if (handshake_.carries()) {
    take_written();
  } else {
    continue_draining();
    continue_proving();
  }
}

void SwitchingLink::on_path_frame(const FastEvent& event) {
  if (closed_ || down()) {
    context_.device->release(event.lease);
    return;
  }
  (handshake_.peer_moved() ? context_.events : early_frames_)
      .push_back({{Event::Kind::kFrame, this, 0, event.frame, {}}, event.lease});
}

void SwitchingLink::take_early_frames() {
  if (!handshake_.peer_moved()) return;
  std::ranges::move(early_frames_, std::back_inserter(context_.events));
  early_frames_.clear();
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
    const std::optional<uint32_t> token = memory_.take_written(number);
    ROCECOLL_CHECK(token);
    emit(Event::Kind::kWritten, token);
  }
}

void SwitchingLink::on_device_down() {
  if (handshake_.carries()) {
    end_generation(context_.unusable);
  } else if (handshake_.attempting()) {
    on_path_failure(context_.unusable);
  }
}

void SwitchingLink::on_device_up() {
  if (handshake_.phase() == Phase::kControl && prospects_.returns()) {
    set_deadline(prospects_.soon());
  }
}

void SwitchingLink::heartbeat_if_silent() {
  if (finished()) return;
  const auto contact = control_.link()->contact();
  const Duration silence = kMissedHeartbeats * context_.options.heartbeat_interval;
  if (contact && context_.now - contact->heard_at >= silence) send_heartbeat();
}

void SwitchingLink::send_heartbeat() {
  if (!handshake_.carries()) return;
  if (context_.now - last_heartbeat_ < context_.options.heartbeat_interval) return;
  last_heartbeat_ = context_.now;
  path_->send_heartbeat();
  mark_dirty();
}

}  // namespace rocecoll
