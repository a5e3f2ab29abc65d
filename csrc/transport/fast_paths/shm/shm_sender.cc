// SPDX-License-Identifier: Apache-2.0
#include "transport/fast_paths/shm/shm_sender.h"

#include <algorithm>

#include "base/fence.h"
#include "base/random.h"

namespace rocecoll {

void ShmSender::connect(SharedSegment ring) {
  segment_ = std::move(ring);
  ring_.emplace(segment_.data());
  peer_fetches_ = false;
}

void ShmSender::probe() {
  cookie_ = EntropyId();
  RingEntry entry;
  entry.kind = RingEntry::Kind::kProbe;
  entry.address = reinterpret_cast<uint64_t>(&cookie_);
  entry.length = cookie_;
  post_payload(entry, {});
  peer_.ring();
}

bool ShmSender::probe_arrived() {
  const bool arrived = ring_->header().head.load() > 0;
  peer_fetches_ = ring_->header().pulls.load() != 0;  // written before `head`
  return arrived;
}

// The peer looks at `revoked` after it has fetched, so this must be visible before the owner writes
// into the memory again. The fence makes sure of that order on every processor.
void ShmSender::revoke() {
  if (ring_) ring_->header().revoked.store(1);
  FullFence();
}

// Saves the frames that may have to go out again, because the ring goes.
void ShmSender::disconnect() {
  for (Message& message : messages_) {
    if (!message.is_write && message.saved.empty()) {
      message.saved.assign(message.frame.begin(), message.frame.end());
    }
  }
  messages_.rewind();
  writes_in_ring_ = 0;
  ring_.reset();
  segment_ = SharedSegment();
}

std::vector<WireBytes> ShmSender::give_up(uint64_t first_number) {
  std::vector<WireBytes> frames;
  for (Message& message : messages_) {
    if (!message.is_write) frames.push_back(std::move(message.saved));
  }
  messages_ = KeptMessages<Message>(first_number);
  return frames;
}

uint64_t ShmSender::unsent_frames() const {
  return static_cast<uint64_t>(std::ranges::count_if(
      messages_.unsent(), [](const Message& message) { return !message.is_write; }));
}

bool ShmSender::acknowledge(uint64_t received) {
  return messages_.acknowledge(received, [this](const Message& message) { drop(message); });
}

bool ShmSender::settle() {
  const uint64_t received = ring_->header().received.load();
  return received <= messages_.next() && acknowledge(received);
}

// The peer has this message, the oldest one.
void ShmSender::drop(const Message& message) {
  const auto write = message.is_write ? writes_.find(message.write) : writes_.end();
  if (write != writes_.end() && message.offset + message.size == write->second.from.size) {
    written_.push_back(write->first);
    writes_.erase(write);
  }
  if (messages_.any_sent() && message.is_write) --writes_in_ring_;
}

bool ShmSender::push_frame(const FrameBytes& frame) {
  if (!messages_.all_sent()) return false;
  RingEntry entry;
  entry.kind = RingEntry::Kind::kFrame;
  const std::byte* posted = post_payload(entry, frame);
  wants_room_ = posted == nullptr;
  if (wants_room_) return false;
  peer_.ring();
  messages_.push({}).frame = {posted, frame.size()};
  messages_.on_sent();
  return true;
}

void ShmSender::push_write(uint32_t number, const RemoteSlice& to, LocalSlice from) {
  writes_[number] = {ExposedNumber(to), from};
  Message& message = messages_.push({});
  message.is_write = true;
  message.write = number;
  message.size = from.size;
}

void ShmSender::forget_writes() {
  writes_.clear();
  written_.clear();
}

void ShmSender::pump() {
  if (messages_.all_sent() && !wants_acknowledgement_) return;
  bool posted = false;
  wants_room_ = false;
  while (!messages_.all_sent()) {
    wants_room_ = !post(messages_.to_send());
    if (wants_room_) break;
    posted = true;
    messages_.on_sent();
  }
  if (posted) peer_.ring();
  if (wants_acknowledgement_) ring_->header().wants_bell.store(1);
}

bool ShmSender::post(Message& message) {
  if (message.is_write) {
    if (!post_write(message)) return false;
    ++writes_in_ring_;
    return true;
  }
  RingEntry entry;
  entry.kind = RingEntry::Kind::kFrame;
  return post_payload(entry, message.saved) != nullptr;
}

// If the write goes out in parts, the rest of it becomes a message of its own.
bool ShmSender::post_write(Message& message) {
  const auto write = writes_.find(message.write);
  RingEntry entry;
  if (write == writes_.end()) {
    entry.kind = RingEntry::Kind::kNothing;
    return post_payload(entry, {}) != nullptr;
  }
  const LocalSlice& from = write->second.from;
  entry.slice = write->second.slice;
  entry.last = 1;
  if (peer_fetches_ && from.size > kFetchAbove && message.size == from.size) {
    entry.kind = RingEntry::Kind::kPull;
    entry.address = reinterpret_cast<uint64_t>(from.data);
    entry.length = from.size;
    if (post_payload(entry, {}) == nullptr) return false;
    count(from.size);
    return true;
  }
  entry.kind = RingEntry::Kind::kPart;
  entry.address = message.offset;
  const size_t size = std::min(message.size, kPartBytes);
  if (size < message.size) entry.last = 0;
  if (post_payload(entry, std::span(from.data + message.offset, size)) == nullptr) return false;
  if (size == message.size) return true;
  Message rest = message;
  rest.offset += size;
  rest.size -= size;
  message.size = size;
  messages_.insert_rest(std::move(rest));
  return true;
}

// Returns where the payload lies, or null if there is no room now; then the peer rings when there
// is.
const std::byte* ShmSender::post_payload(const RingEntry& entry, const FrameBytes& payload) {
  std::byte* room = ring_->reserve(payload.size());
  if (room == nullptr) {
    ring_->header().wants_bell.store(1);
    room = ring_->reserve(payload.size());  // it may have come before it was asked for
  }
  if (room == nullptr) return nullptr;
  payload.copy_to(room);
  RingEntry sized = entry;
  sized.payload_bytes = static_cast<uint32_t>(payload.size());
  ring_->publish(sized);
  ++traffic_.packets_sent;
  count(payload.size());
  return room;
}

void ShmSender::count(size_t bytes) {
  traffic_.bytes_sent += bytes;
  stats_.shared_bytes_sent += bytes;
}

}  // namespace rocecoll
