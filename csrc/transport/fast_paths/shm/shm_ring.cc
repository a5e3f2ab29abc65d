// SPDX-License-Identifier: Apache-2.0
#include "transport/fast_paths/shm/shm_ring.h"

#include <cstring>
#include <new>

#include "base/arithmetic.h"
#include "base/check.h"

namespace rocecoll {
namespace {

uint64_t EntryBytes(size_t payload_bytes) {
  return RoundUp(sizeof(RingEntry) + payload_bytes, kRingAlignment);
}

uint64_t UntilEnd(uint64_t position) { return kRingBytes - position % kRingBytes; }

}  // namespace

void RingWriter::update_head() {
  const uint64_t head = header().head.load(std::memory_order_acquire);
  if (head < known_head_ || head > tail_ || head % kRingAlignment != 0) {
    sound_ = false;
    return;
  }
  known_head_ = head;
}

bool RingWriter::room_for(uint64_t bytes) {
  if (tail_ + bytes - known_head_ <= kRingBytes) return true;
  update_head();
  return sound_ && tail_ + bytes - known_head_ <= kRingBytes;
}

// Skips the rest of the ring.
void RingWriter::wrap() {
  const RingEntry entry;
  std::memcpy(at(tail_), &entry, sizeof(entry));
  tail_ += UntilEnd(tail_);
}

std::byte* RingWriter::reserve(size_t payload_bytes) {
  ROCECOLL_CHECK(payload_bytes <= kMaxRingPayload);
  const uint64_t bytes = EntryBytes(payload_bytes);
  if (tail_ % kRingBytes >= kWarmRingBytes) {
    update_head();
    if (sound_ && known_head_ == tail_) wrap();
  }
  const uint64_t until_end = UntilEnd(tail_);
  if (bytes > until_end) {
    if (!room_for(until_end + bytes)) return nullptr;
    wrap();
  } else if (!room_for(bytes)) {
    return nullptr;
  }
  return at(tail_) + sizeof(RingEntry);
}

void RingWriter::publish(const RingEntry& entry) {
  std::memcpy(at(tail_), &entry, sizeof(entry));
  tail_ += EntryBytes(entry.payload_bytes);
  header().tail.store(tail_, std::memory_order_release);
}

RingReader::RingReader(std::byte* segment) : segment_(segment) { new (segment_) RingHeader(); }

std::optional<RingReader::Message> RingReader::next() {
  while (sound_) {
    if (position_ == known_tail_) {
      known_tail_ = header().tail.load(std::memory_order_acquire);
      if (position_ == known_tail_) return std::nullopt;
    }
    const uint64_t there = known_tail_ - position_;
    const uint64_t until_end = UntilEnd(position_);
    Message message;
    const std::byte* at = segment_ + RingHeader::kBytes + position_ % kRingBytes;
    sound_ = there <= kRingBytes && there % kRingAlignment == 0;
    if (!sound_) break;
    std::memcpy(&message.entry, at, sizeof(message.entry));
    const bool wraps = message.entry.kind == RingEntry::Kind::kWrap;
    const uint64_t bytes = wraps ? until_end : EntryBytes(message.entry.payload_bytes);
    sound_ = bytes <= there && bytes <= until_end;
    if (!sound_) break;
    next_position_ = position_ + bytes;
    if (wraps) {
      position_ = next_position_;
      continue;
    }
    message.payload = {at + sizeof(RingEntry), message.entry.payload_bytes};
    return message;
  }
  return std::nullopt;
}

}  // namespace rocecoll
