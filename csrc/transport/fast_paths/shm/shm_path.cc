// SPDX-License-Identifier: Apache-2.0
// The generations of a path, and what it sends.
#include "transport/fast_paths/shm/shm_path.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/fence.h"
#include "base/random.h"
#include "transport/fast_paths/shm/copy_timer.h"
#include "transport/fast_paths/shm/shm_device.h"

namespace rocecoll {

ShmPath::ShmPath(ShmDevice& device)
    : device_(device),
      messages_(device.options().first_number),
      received_(device.options().first_number),
      cannot_fetch_(!device.options().fetch) {}

Status ShmPath::prepare() {
  destroy();
  auto segment = SharedSegment::Create(kRingSegmentBytes);
  if (!segment.ok()) return segment.status();
  const std::optional<uint32_t> slot = device_.add(*this);
  if (!slot) return Status(StatusCode::kNetwork, "this process has no room for more paths");
  slot_ = *slot;
  nonce_ = EntropyId();
  receive_ = std::make_unique<ReceiveRing>(segment.take());
  receive_->path = this;
  receive_->reader.header().received.store(received_);
  set_expecting(true);
  probing_ = proved_ = started_ = failed_ = peer_fetches_ = false;
  fault_.clear();
  peer_mark_ = {};
  return {};
}

FastPath::Ends ShmPath::ends() const {
  if (receive_ == nullptr) return {};
  const ShmEnd end{device_.socket().name(), nonce_, slot_, device_.host()};
  return {1, {end.address()}};
}

Status ShmPath::connect(const Ends& peer) {
  const std::optional<ShmEnd> end = ShmEnd::Parse(peer.addresses.front());
  if (!end) return Status(StatusCode::kNetwork, "the peer offers something else");
  const std::string obstacle = HostFacts::Obstacle(device_.host(), end->host);
  if (!obstacle.empty()) return Status(StatusCode::kNetwork, obstacle);
  peer_end_ = *end;
  peer_socket_ = HostSocketAddress(end->socket);
  const Result<bool> greeted = greet();
  if (!greeted.ok()) return greeted.status();
  if (!greeted.value()) device_.greet_later(slot_);
  return {};
}

// False: no room now.
Result<bool> ShmPath::greet() {
  const HostGreeting greeting{device_.socket().name(), peer_end_.nonce,
                              static_cast<uint32_t>(peer_end_.slot)};
  Result<bool> sent = device_.socket().greet(peer_socket_, greeting, receive_->segment.descriptor(),
                                             device_.doorbell().descriptor());
  if (sent.ok() && sent.value()) receive_->segment.close_descriptor();
  return sent;
}

bool ShmPath::greet_again() {
  const Result<bool> greeted = greet();
  if (greeted.ok()) return greeted.value();
  find_fault(greeted.status().message());
  return true;
}

void ShmPath::on_greeting(std::shared_ptr<PeerProcess> peer, SharedSegment ring) {
  if (failed_ || send_) return;
  set_expecting(false);
  peer_ = std::move(peer);
  send_segment_ = std::move(ring);
  send_.emplace(send_segment_.data());
  device_.look_again(slot_);  // at what has waited for this
  send_probe();
}

void ShmPath::refuse(std::string why) {
  if (failed_ || send_) return;
  find_fault(std::move(why));
}

// Until then the device looks for greetings in every batch.
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
  if (!probing_ || !send_ || failed_) return;
  cookie_ = EntropyId();
  RingEntry entry;
  entry.kind = RingEntry::Kind::kProbe;
  entry.address = reinterpret_cast<uint64_t>(&cookie_);
  entry.length = cookie_;
  post_payload(entry, {});
  ring_peer();
}

void ShmPath::fail() {
  if (failed_) return;
  failed_ = true;
  set_expecting(false);
  // Before our memory is anything else: the peer looks at this after it has fetched. The fence
  // keeps what the owner writes there next behind it, on processors that would not.
  if (send_) send_->header().revoked.store(1);
  FullFence();
}

// Frames that may have to go out again are taken out of the ring, which goes. What was fetched half
// comes again from its beginning.
void ShmPath::destroy() {
  fail();
  if (receive_ == nullptr) return;
  for (Message& message : messages_) {
    if (!message.is_write && message.saved.empty()) {
      message.saved.assign(message.frame.begin(), message.frame.end());
    }
  }
  for (auto& [number, exposure] : exposures_) {
    if (std::exchange(exposure.fetching, false)) exposure.landed = 0;
  }
  messages_.rewind();
  writes_in_ring_ = 0;
  send_.reset();
  send_segment_ = SharedSegment();
  device_.remove(slot_);
  peer_.reset();
  receive_->path = nullptr;
  if (receive_->leases > 0) {
    device_.keep_until_released(std::move(receive_));
  } else {
    receive_.reset();
  }
}

std::vector<WireBytes> ShmPath::give_up() {
  destroy();
  std::vector<WireBytes> frames;
  for (Message& message : messages_) {
    if (!message.is_write) frames.push_back(std::move(message.saved));
  }
  received_ = device_.options().first_number;
  messages_ = KeptMessages<Message>(received_);
  forget_lent();
  return frames;
}

std::string ShmPath::carrier() const {
  return peer_fetches_ || !started_
             ? "shared memory"
             : "shared memory, large messages to it in two copies (the system does "
               "not let it read this process's memory)";
}

bool ShmPath::acknowledge(const Counts& received) {
  return messages_.acknowledge(received[0], [this](const Message& message) { drop(message); });
}

// The peer has the oldest message, this one.
void ShmPath::drop(const Message& message) {
  const auto write = message.is_write ? writes_.find(message.write) : writes_.end();
  if (write != writes_.end() && message.offset + message.size == write->second.from.size) {
    written_.push_back(write->first);
    writes_.erase(write);
  }
  if (messages_.any_sent() && message.is_write) --writes_in_ring_;
}

uint64_t ShmPath::unsent() const {
  return static_cast<uint64_t>(std::ranges::count_if(
      messages_.unsent(), [](const Message& message) { return !message.is_write; }));
}

// To be told by the next look().
void ShmPath::find_fault(std::string text) {
  fault_ = std::move(text);
  device_.look_again(slot_);
}

void ShmPath::settle() {
  if (!send_ || !started_ || failed_) return;
  const uint64_t received = send_->header().received.load();
  if (received > messages_.next() ||
      !messages_.acknowledge(received, [this](const Message& message) { drop(message); })) {
    find_fault("the peer has taken messages that were never sent");
  }
}

void ShmPath::ring_peer() {
  if (peer_->doorbell.ring(static_cast<uint32_t>(peer_end_.slot))) {
    device_.socket().wake(peer_socket_);
  }
}

bool ShmPath::push_frame(const FrameBytes& frame) {
  ROCECOLL_CHECK(!frame.empty() && frame.size() <= ShmOptions::kMaxFrameBytes);
  if (messages_.size() >= kSettleEvery) settle();
  if (!started_ || failed_ || !messages_.all_sent()) return false;
  RingEntry entry;
  entry.kind = RingEntry::Kind::kFrame;
  const std::byte* posted = post_payload(entry, frame);
  wants_room_ = posted == nullptr;
  if (wants_room_) return false;
  ring_peer();
  messages_.push({}).frame = {posted, frame.size()};
  messages_.on_sent();
  return true;
}

void ShmPath::push_write(uint32_t number, const RemoteSlice& to, LocalSlice from) {
  const bool fetched = from.size >= kFetchFrom && send_ && peer_fetches_ &&
                       (from.size > kChooseUpTo ||
                        peer_->copies.next_is_fetched(send_->header().fetch_costs_more.load()));
  writes_[number] = {ExposedNumber(to), from, fetched};
  Message& message = messages_.push({});
  message.is_write = true;
  message.write = number;
  message.size = from.size;
}

// Returns where the payload lies; null: no room now, and the peer rings when there is some.
const std::byte* ShmPath::post_payload(const RingEntry& entry, const FrameBytes& payload) {
  std::byte* room = send_->reserve(payload.size());
  if (room == nullptr) {
    send_->header().wants_bell.store(1);
    room = send_->reserve(payload.size());  // it may have come before it was asked for
  }
  if (room == nullptr) return nullptr;
  payload.copy_to(room);
  RingEntry sized = entry;
  sized.payload_bytes = static_cast<uint32_t>(payload.size());
  send_->publish(sized);
  ++traffic_.packets_sent;
  count_sent(payload.size());
  return room;
}

void ShmPath::count_sent(size_t bytes) {
  traffic_.bytes_sent += bytes;
  device_.own_stats().shared_bytes_sent += bytes;
}

// Of a write that goes in parts the rest becomes a message of its own.
bool ShmPath::post_write(Message& message) {
  const auto write = writes_.find(message.write);
  RingEntry entry;
  if (write == writes_.end()) {
    entry.kind = RingEntry::Kind::kNothing;
    return post_payload(entry, {}) != nullptr;
  }
  const LocalSlice& from = write->second.from;
  entry.slice = write->second.slice;
  entry.last = 1;
  if (peer_fetches_ && write->second.fetched && message.size == from.size) {
    entry.kind = RingEntry::Kind::kPull;
    entry.address = reinterpret_cast<uint64_t>(from.data);
    entry.length = from.size;
    if (post_payload(entry, {}) == nullptr) return false;
    count_sent(from.size);
    return true;
  }
  entry.kind = RingEntry::Kind::kPart;
  entry.address = message.offset;
  const size_t size = std::min(message.size, kPartBytes);
  if (size < message.size) entry.last = 0;
  const bool timed = message.offset % kTimedEvery == kPartBytes && size == kPartBytes;
  const auto timer = timed ? std::make_optional<CopyTimer>() : std::nullopt;
  if (post_payload(entry, std::span(from.data + message.offset, size)) == nullptr) return false;
  if (timer) peer_->copies.on_copied(CopyChoice::Copy::kIntoRing, size, timer->took());
  if (size == message.size) return true;
  Message rest = message;
  rest.offset += size;
  rest.size -= size;
  message.size = size;
  messages_.insert_rest(std::move(rest));
  return true;
}

bool ShmPath::post(Message& message) {
  if (message.is_write) {
    if (!post_write(message)) return false;
    ++writes_in_ring_;
    return true;
  }
  RingEntry entry;
  entry.kind = RingEntry::Kind::kFrame;
  return post_payload(entry, message.saved) != nullptr;
}

Status ShmPath::pump() {
  if (!started_ || failed_) return {};
  const bool nothing_to_say = messages_.all_sent() && !wants_acknowledgement_;
  if (nothing_to_say && send_->sound()) return {};
  bool posted = false;
  wants_room_ = false;
  while (!messages_.all_sent()) {
    wants_room_ = !post(messages_.to_send());
    if (wants_room_) break;
    posted = true;
    messages_.on_sent();
  }
  if (posted) ring_peer();
  if (wants_acknowledgement_) {
    send_->header().wants_bell.store(1);
    settle();
  }
  if (send_->sound()) return {};
  return Status(StatusCode::kNetwork, "the peer wrote into the ring what cannot be");
}

Result<RemoteSlice> ShmPath::expose(uint32_t number, LocalSlice into) {
  exposures_[number] = {into, 0, false};
  return RemoteSlice{1, into.size, uint64_t{number} << 32 | 1};
}

bool ShmPath::take_back(uint32_t number) {
  const auto found = exposures_.find(number);
  if (found == exposures_.end()) return true;
  const bool untouched = found->second.landed == 0;
  exposures_.erase(found);
  return untouched;
}

void ShmPath::forget_lent() {
  ROCECOLL_CHECK(failed_);
  writes_.clear();
  exposures_.clear();
  written_.clear();
}

}  // namespace rocecoll
