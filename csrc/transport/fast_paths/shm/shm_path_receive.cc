// SPDX-License-Identifier: Apache-2.0
// What a path makes of the messages in its ring.
#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/fence.h"
#include "transport/fast_paths/shm/copy_timer.h"
#include "transport/fast_paths/shm/memory_pull.h"
#include "transport/fast_paths/shm/shm_device.h"
#include "transport/fast_paths/shm/shm_path.h"

namespace rocecoll {
namespace {

constexpr char kEnded[] = "its process has ended";

}  // namespace

// Whether the bell may have rung for what the peer has taken.
bool ShmPath::expects_news() const {
  return writes_in_ring_ > 0 || !written_.empty() || wants_room_ || wants_acknowledgement_ ||
         !started_;
}

bool ShmPath::look(FastEvent& event) {
  event = {};
  event.path = this;
  if (failed_ || receive_ == nullptr) return false;
  if (!fault_.empty()) return broken(event, fault_.c_str());
  if (peer_ == nullptr) return false;  // what it says waits until we know who it is
  while (const auto message = receive_->reader.next()) {
    if (take(*message, event)) return true;
    if (waits_) return !std::exchange(waits_, false);
  }
  if (!receive_->reader.sound()) return broken(event, "the peer wrote what cannot be");
  if (peer_->ended) return broken(event, kEnded);
  return false;
}

// For the device: once for each bell.
bool ShmPath::on_bell(FastEvent& event) {
  event = {};
  event.path = this;
  if (failed_ || !expects_news()) return false;
  if (send_ && probing_ && !proved_) {
    proved_ = send_->header().head.load() > 0;
    peer_fetches_ = send_->header().pulls.load() != 0;
  }
  settle();
  return true;
}

bool ShmPath::broken(FastEvent& event, const char* text) {
  event.kind = FastEvent::Kind::kFailed;
  event.text = text;
  fail();
  return true;
}

bool ShmPath::take(const RingReader::Message& message, FastEvent& event) {
  const RingEntry& entry = message.entry;
  event.number = entry.slice;
  switch (entry.kind) {
    case RingEntry::Kind::kProbe:
      take_probe(entry);
      return false;
    case RingEntry::Kind::kFrame:
      if (message.payload.empty() || message.payload.size() > ShmOptions::kMaxFrameBytes) break;
      event.kind = FastEvent::Kind::kFrame;
      event.frame = message.payload;
      event.lease = {reinterpret_cast<uint64_t>(receive_.get()), 0};
      ++receive_->leases;
      ++received_;
      receive_->reader.advance();
      ++traffic_.packets_received;
      count_received(message.payload.size());
      return true;
    case RingEntry::Kind::kPull:
    case RingEntry::Kind::kPart:
      return take_write(message, event);
    case RingEntry::Kind::kNothing:
      took(/*tell=*/false);
      return false;
    case RingEntry::Kind::kWrap:
      break;
  }
  return broken(event, "a malformed message arrived");
}

// The first message of all.
void ShmPath::take_probe(const RingEntry& entry) {
  peer_mark_ = {entry.address, entry.length};
  const bool works =
      !cannot_fetch_ && peer_->process != 0 && PullMemory(peer_->process, peer_mark_, 0, {});
  receive_->reader.header().pulls.store(works ? 1 : 0);
  receive_->reader.advance();
  receive_->reader.free_read();
  ring_peer();
}

// One message less. `tell`: the peer waits for that.
void ShmPath::took(bool tell) {
  receive_->reader.advance();
  ++received_;
  ++traffic_.packets_received;
  say_taken(tell);
}

void ShmPath::count_received(size_t bytes) {
  traffic_.bytes_received += bytes;
  device_.own_stats().shared_bytes_received += bytes;
}

void ShmPath::on_all_released() {
  if (!failed_) say_taken(/*tell=*/false);
}

void ShmPath::say_taken(bool tell) {
  RingHeader& header = receive_->reader.header();
  header.received.store(received_, std::memory_order_release);
  if (receive_->leases == 0) receive_->reader.free_read();
  if (!tell && header.wants_bell.load() == 0) return;
  header.wants_bell.store(0);
  ring_peer();
}

bool ShmPath::take_write(const RingReader::Message& message, FastEvent& event) {
  const RingEntry& entry = message.entry;
  const bool fetched = entry.kind == RingEntry::Kind::kPull;
  const auto found = exposures_.find(entry.slice);
  if (found == exposures_.end()) {
    took(fetched || entry.last != 0);
    event.kind = FastEvent::Kind::kStray;
    return true;
  }
  return fetched ? fetch(entry, found->second, event) : take_part(message, found->second, event);
}

bool ShmPath::landed(uint32_t slice, FastEvent& event) {
  exposures_.erase(slice);
  took(/*tell=*/true);
  event.kind = FastEvent::Kind::kLanded;
  return true;
}

// As much as one turn has.
bool ShmPath::fetch(const RingEntry& entry, Exposure& exposure, FastEvent& event) {
  if (entry.length != exposure.into.size) return broken(event, "a write of another size arrived");
  exposure.fetching = true;
  const size_t turn_ends = std::min(exposure.into.size, exposure.landed + kFetchBytes);
  while (exposure.landed < turn_ends) {
    const size_t left = turn_ends - exposure.landed;
    if (const char* why = fetch_some(entry.address, exposure, left)) return broken(event, why);
  }
  if (exposure.landed == exposure.into.size) return landed(entry.slice, event);
  waits_ = true;
  device_.look_again(slot_);
  return false;
}

// At most `size` bytes. Returns why it may not be, or null.
const char* ShmPath::fetch_some(uint64_t address, Exposure& exposure, size_t size) {
  const size_t piece = std::min(size, kHandOverBytes);
  const bool hands_over = exposure.hands_over(piece);
  const std::span<std::byte> into = hands_over
                                        ? std::span(exposure.into.data, piece)
                                        : std::span(exposure.into.data + exposure.landed, size);
  const CopyTimer timer;
  const bool pulled = PullMemory(peer_->process, peer_mark_, address + exposure.landed, into);
  if (peer_->has_ended()) return kEnded;
  FullFence();
  if (receive_->reader.header().revoked.load() != 0) {
    return "the peer has taken back what it was sending";
  }
  if (!pulled) {
    cannot_fetch_ = true;
    return "the system does not let this process read the peer's memory, or the peer runs another "
           "program now";
  }
  took_to_copy(CopyChoice::Copy::kFetch, into.size(), timer.took());
  if (hands_over) exposure.into.intake->take(into);
  exposure.landed += into.size();
  count_received(into.size());
  return nullptr;
}

void ShmPath::took_to_copy(CopyChoice::Copy which, size_t bytes, Duration time) {
  peer_->copies.on_copied(which, bytes, time);
  receive_->reader.header().fetch_costs_more.store(peer_->copies.fetch_costs_more());
}

// Parts come in order; one that has come before the last generation ended does not come again.
bool ShmPath::take_part(const RingReader::Message& message, Exposure& exposure, FastEvent& event) {
  const size_t size = message.payload.size();
  if (message.entry.address != exposure.landed || size > exposure.into.size - exposure.landed) {
    return broken(event, "a part of a write that does not fit arrived");
  }
  if (exposure.hands_over(size)) {
    exposure.into.intake->take(message.payload);
  } else {
    copy_part(message.payload, exposure);
  }
  exposure.landed += size;
  count_received(size);
  if (exposure.landed == exposure.into.size) return landed(message.entry.slice, event);
  took(/*tell=*/false);
  return false;
}

void ShmPath::copy_part(std::span<const std::byte> part, const Exposure& exposure) {
  const bool timed = exposure.landed % kTimedEvery == kPartBytes && part.size() == kPartBytes;
  const auto timer = timed ? std::make_optional<CopyTimer>() : std::nullopt;
  std::memcpy(exposure.into.data + exposure.landed, part.data(), part.size());
  if (timer) took_to_copy(CopyChoice::Copy::kOutOfRing, part.size(), timer->took());
}

}  // namespace rocecoll
