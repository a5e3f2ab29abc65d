// SPDX-License-Identifier: Apache-2.0
#include "transport/fast_paths/shm/shm_path.h"

#include <optional>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/random.h"
#include "transport/fast_paths/shm/shm_device.h"

namespace rocecoll {

ShmPath::ShmPath(ShmDevice& device)
    : device_(device),
      peer_(device.socket()),
      sender_(peer_, device.own_stats(), traffic_, device.options().first_number),
      receiver_(peer_, device.own_stats(), traffic_, device.options()) {}

Status ShmPath::prepare() {
  destroy();
  auto segment = SharedSegment::Create(kRingSegmentBytes, kReadyRingBytes);
  if (!segment.ok()) return segment.status();
  const std::optional<uint32_t> slot = device_.add(*this);
  if (!slot) return Status(StatusCode::kNetwork, "this process has no room for more paths");
  slot_ = *slot;
  nonce_ = EntropyId();
  receiver_.prepare(segment.take(), *this);
  set_expecting(true);
  probing_ = proved_ = started_ = failed_ = false;
  fault_.clear();
  return {};
}

FastPath::Ends ShmPath::ends() const {
  if (!receiver_.prepared()) return {};
  const ShmEnd end{device_.socket().name(), nonce_, slot_, device_.host()};
  return {1, {end.address()}};
}

Status ShmPath::connect(const Ends& peer) {
  const std::optional<ShmEnd> end = ShmEnd::Parse(peer.addresses.front());
  if (!end) return Status(StatusCode::kNetwork, "the peer offers something else");
  const std::string obstacle = HostFacts::Obstacle(device_.host(), end->host);
  if (!obstacle.empty()) return Status(StatusCode::kNetwork, obstacle);
  peer_.set(*end);
  const Result<bool> greeted = greet();
  if (!greeted.ok()) return greeted.status();
  if (!greeted.value()) device_.greet_later(slot_);
  return {};
}

// False: the peer's socket has no room now.
Result<bool> ShmPath::greet() {
  Result<bool> sent =
      peer_.greet(receiver_.segment().descriptor(), device_.doorbell().descriptor());
  if (sent.ok() && sent.value()) receiver_.segment().close_descriptor();
  return sent;
}

bool ShmPath::greet_again() {
  const Result<bool> greeted = greet();
  if (greeted.ok()) return greeted.value();
  find_fault(greeted.status().message());
  return true;
}

void ShmPath::on_greeting(std::shared_ptr<PeerProcess> peer, SharedSegment ring) {
  if (failed_ || sender_.connected()) return;
  set_expecting(false);
  peer_.meet(std::move(peer));
  sender_.connect(std::move(ring));
  device_.look_again(slot_);  // at messages that had to wait for this
  send_probe();
}

void ShmPath::refuse(std::string why) {
  if (failed_ || sender_.connected()) return;
  find_fault(std::move(why));
}

// While a greeting is expected the device looks for one in every batch.
void ShmPath::set_expecting(bool expecting) {
  if (expecting == expecting_) return;
  expecting_ = expecting;
  if (expecting) {
    device_.expect_greeting();
  } else {
    device_.expect_no_greeting();
  }
}

Status ShmPath::probe() {
  probing_ = true;
  send_probe();
  return {};
}

void ShmPath::send_probe() {
  if (probing_ && sender_.connected() && !failed_) sender_.probe();
}

void ShmPath::fail() {
  if (failed_) return;
  failed_ = true;
  set_expecting(false);
  sender_.revoke();
}

void ShmPath::destroy() {
  fail();
  if (!receiver_.prepared()) return;
  sender_.disconnect();
  device_.remove(slot_);
  peer_.forget();
  std::unique_ptr<ReceiveRing> ring = receiver_.disconnect();
  if (ring->leases > 0) device_.keep_until_released(std::move(ring));
}

std::vector<WireBytes> ShmPath::give_up() {
  destroy();
  const uint64_t first_number = device_.options().first_number;
  receiver_.start_over(first_number);
  std::vector<WireBytes> frames = sender_.give_up(first_number);
  forget_lent();
  return frames;
}

std::string ShmPath::carrier() const {
  return sender_.peer_fetches() || !started_
             ? "shared memory"
             : "shared memory, large messages to it in two copies (the system does "
               "not let it read this process's memory)";
}

// The next look() reports it.
void ShmPath::find_fault(std::string text) {
  fault_ = std::move(text);
  device_.look_again(slot_);
}

void ShmPath::settle() {
  if (!started_ || failed_ || sender_.settle()) return;
  find_fault("the peer has taken messages that were never sent");
}

bool ShmPath::push_frame(const FrameBytes& frame) {
  ROCECOLL_CHECK(!frame.empty() && frame.size() <= ShmOptions::kMaxFrameBytes);
  if (sender_.should_settle()) settle();
  return started_ && !failed_ && sender_.push_frame(frame);
}

Status ShmPath::pump() {
  if (!started_ || failed_) return {};
  sender_.pump();
  if (sender_.wants_acknowledgement()) settle();
  if (sender_.sound()) return {};
  return Status(StatusCode::kNetwork, "the peer wrote into the ring what cannot be");
}

void ShmPath::forget_lent() {
  ROCECOLL_CHECK(failed_);
  sender_.forget_writes();
  receiver_.forget_exposed();
}

bool ShmPath::on_bell(FastEvent& event) {
  event = {};
  event.path = this;
  if (failed_ || (started_ && !sender_.expects_news())) return false;
  if (sender_.connected() && probing_ && !proved_) proved_ = sender_.probe_arrived();
  settle();
  return true;
}

bool ShmPath::look(FastEvent& event) {
  event = {};
  event.path = this;
  if (failed_ || !receiver_.prepared()) return false;
  if (!fault_.empty()) return broken(event, fault_.c_str());
  if (peer() == nullptr) return false;  // its messages wait until it has greeted
  switch (receiver_.look(event)) {
    case ShmReceiver::Found::kEvent:
      if (event.kind == FastEvent::Kind::kFailed) fail();
      return true;
    case ShmReceiver::Found::kLater:
      device_.look_again(slot_);
      return false;
    case ShmReceiver::Found::kNothing:
      break;
  }
  return peer()->ended && broken(event, PeerProcess::kEnded);
}

bool ShmPath::broken(FastEvent& event, const char* text) {
  event.kind = FastEvent::Kind::kFailed;
  event.text = text;
  fail();
  return true;
}

void ShmPath::on_all_released() {
  if (!failed_) receiver_.on_all_released();
}

}  // namespace rocecoll
