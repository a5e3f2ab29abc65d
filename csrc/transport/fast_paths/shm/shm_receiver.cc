// SPDX-License-Identifier: Apache-2.0
#include "transport/fast_paths/shm/shm_receiver.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/fence.h"

namespace rocecoll {
namespace {

using Found = ShmReceiver::Found;

// `text` outlives the event.
Found Broken(FastEvent& event, const char* text) {
  event.kind = FastEvent::Kind::kFailed;
  event.text = text;
  return Found::kEvent;
}

}  // namespace

void ShmReceiver::prepare(SharedSegment ring, ShmPath& path) {
  ring_ = std::make_unique<ReceiveRing>(std::move(ring));
  ring_->path = &path;
  ring_->reader.header().received.store(received_);
  peer_mark_ = {};
}

// A write that was fetched in part starts again in the next generation, in one way or the other.
std::unique_ptr<ReceiveRing> ShmReceiver::disconnect() {
  for (auto& [number, exposure] : exposures_) {
    if (std::exchange(exposure.fetching, false)) exposure.landed = 0;
  }
  ring_->path = nullptr;
  return std::move(ring_);
}

RemoteSlice ShmReceiver::expose(uint32_t number, LocalSlice into) {
  exposures_[number] = {into, 0, false};
  return {1, into.size, uint64_t{number} << 32 | 1};
}

bool ShmReceiver::take_back(uint32_t number) {
  const auto found = exposures_.find(number);
  if (found == exposures_.end()) return true;
  const bool untouched = found->second.landed == 0;
  exposures_.erase(found);
  return untouched;
}

Found ShmReceiver::look(FastEvent& event) {
  for (int left = kMessagesPerTurn; left > 0; --left) {
    const auto message = ring_->reader.next();
    if (!message) {
      if (!ring_->reader.sound()) return Broken(event, "the peer wrote what cannot be");
      return Found::kNothing;
    }
    const Found found = take(*message, event);
    if (found != Found::kNothing) return found;
  }
  return Found::kLater;
}

Found ShmReceiver::take(const RingReader::Message& message, FastEvent& event) {
  const RingEntry& entry = message.entry;
  event.number = entry.slice;
  switch (entry.kind) {
    case RingEntry::Kind::kProbe:
      take_probe(entry);
      return Found::kNothing;
    case RingEntry::Kind::kFrame:
      if (message.payload.empty() || message.payload.size() > ShmOptions::kMaxFrameBytes) break;
      event.kind = FastEvent::Kind::kFrame;
      event.frame = message.payload;
      event.lease = {reinterpret_cast<uint64_t>(ring_.get()), 0};
      ++ring_->leases;
      ++received_;
      ring_->reader.advance();
      ++traffic_.packets_received;
      count(message.payload.size());
      return Found::kEvent;
    case RingEntry::Kind::kPull:
    case RingEntry::Kind::kPart:
      return take_write(message, event);
    case RingEntry::Kind::kNothing:
      took(/*tell=*/false);
      return Found::kNothing;
    case RingEntry::Kind::kWrap:
      break;
  }
  return Broken(event, "a malformed message arrived");
}

// The first message of a generation.
void ShmReceiver::take_probe(const RingEntry& entry) {
  peer_mark_ = {entry.address, entry.length};
  const bool works = !cannot_fetch_ && peer_.process()->process != 0 &&
                     PullMemory(peer_.process()->process, peer_mark_, 0, {});
  ring_->reader.header().pulls.store(works ? 1 : 0);
  ring_->reader.advance();
  ring_->reader.free_read();
  peer_.ring();
}

// Drops the message. `tell`: the peer waits to hear of it.
void ShmReceiver::took(bool tell) {
  ring_->reader.advance();
  ++received_;
  ++traffic_.packets_received;
  say_taken(tell);
}

void ShmReceiver::count(size_t bytes) {
  traffic_.bytes_received += bytes;
  stats_.shared_bytes_received += bytes;
}

void ShmReceiver::say_taken(bool tell) {
  RingHeader& header = ring_->reader.header();
  header.received.store(received_, std::memory_order_release);
  if (ring_->leases == 0) ring_->reader.free_read();
  if (!tell && header.wants_bell.load() == 0) return;
  header.wants_bell.store(0);
  peer_.ring();
}

Found ShmReceiver::take_write(const RingReader::Message& message, FastEvent& event) {
  const RingEntry& entry = message.entry;
  const bool fetched = entry.kind == RingEntry::Kind::kPull;
  const auto found = exposures_.find(entry.slice);
  if (found == exposures_.end()) {
    took(fetched || entry.last != 0);
    event.kind = FastEvent::Kind::kStray;
    return Found::kEvent;
  }
  return fetched ? fetch(entry, found->second, event) : take_part(message, found->second, event);
}

Found ShmReceiver::landed(uint32_t slice, FastEvent& event) {
  exposures_.erase(slice);
  took(/*tell=*/true);
  event.kind = FastEvent::Kind::kLanded;
  return Found::kEvent;
}

// Fetches as much as may be fetched in one turn.
Found ShmReceiver::fetch(const RingEntry& entry, Exposure& exposure, FastEvent& event) {
  if (entry.length != exposure.into.size) return Broken(event, "a write of another size arrived");
  exposure.fetching = true;
  const size_t turn_ends = std::min(exposure.into.size, exposure.landed + kFetchBytes);
  while (exposure.landed < turn_ends) {
    const size_t left = turn_ends - exposure.landed;
    if (const char* why = fetch_some(entry.address, exposure, left)) return Broken(event, why);
  }
  if (exposure.landed == exposure.into.size) return landed(entry.slice, event);
  return Found::kLater;
}

// Fetches up to `size` bytes. Returns why that is impossible, or null.
const char* ShmReceiver::fetch_some(uint64_t address, Exposure& exposure, size_t size) {
  const size_t piece = std::min(size, kHandOverBytes);
  const bool hands_over = exposure.hands_over(piece);
  const std::span<std::byte> into = hands_over
                                        ? std::span(exposure.into.data, piece)
                                        : std::span(exposure.into.data + exposure.landed, size);
  const bool pulled =
      PullMemory(peer_.process()->process, peer_mark_, address + exposure.landed, into);
  if (peer_.process()->has_ended()) return PeerProcess::kEnded;
  FullFence();
  if (ring_->reader.header().revoked.load() != 0) {
    return "the peer has taken back what it was sending";
  }
  if (!pulled) {
    cannot_fetch_ = true;
    return "the system does not let this process read the peer's memory, or the peer runs another "
           "program now";
  }
  if (hands_over) exposure.into.intake->take(into);
  exposure.landed += into.size();
  count(into.size());
  return nullptr;
}

// Parts come in order, and none comes twice: the next generation goes on where the last one ended.
Found ShmReceiver::take_part(const RingReader::Message& message, Exposure& exposure,
                             FastEvent& event) {
  const size_t size = message.payload.size();
  if (message.entry.address != exposure.landed || size > exposure.into.size - exposure.landed) {
    return Broken(event, "a part of a write that does not fit arrived");
  }
  if (exposure.hands_over(size)) {
    exposure.into.intake->take(message.payload);
  } else {
    std::memcpy(exposure.into.data + exposure.landed, message.payload.data(), size);
  }
  exposure.landed += size;
  count(size);
  if (exposure.landed == exposure.into.size) return landed(message.entry.slice, event);
  took(/*tell=*/false);
  return Found::kNothing;
}

}  // namespace rocecoll
