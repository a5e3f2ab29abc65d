// SPDX-License-Identifier: Apache-2.0
#include "transport/datagram/reliability/regions.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "base/arithmetic.h"
#include "base/check.h"

namespace rocecoll {
namespace {

constexpr uint64_t kIndexMask = Regions::kMaxRegions - 1;

uint32_t IndexOf(uint64_t id) { return static_cast<uint32_t>(id & kIndexMask); }
uint64_t GenerationOf(uint64_t id) { return id >> Regions::kIndexBits; }

void Copy(const LocalSlice& into, size_t at, std::span<const std::byte> bytes) {
  std::memcpy(into.data + at, bytes.data(), bytes.size());
}

// Copies into a slice with an intake, once everything before `at` has arrived. The intake gets
// whole pieces: the rest of a piece waits in the slice, as do bytes that came too early.
void HandOver(const LocalSlice& into, size_t at, std::span<const std::byte> bytes) {
  constexpr size_t kPiece = Intake::kPieceBytes;
  Intake& intake = *into.intake;
  const size_t taken = intake.taken_bytes();
  const auto whole_until = [&](size_t end) { return end == into.size ? end : end - end % kPiece; };
  const auto copy = [&](size_t count) {
    Copy(into, at, bytes.first(count));
    at += count;
    bytes = bytes.subspan(count);
  };
  if (taken > at) {  // over another path, which has failed since
    copy(std::min(taken - at, bytes.size()));
  } else if (taken < at) {
    copy(std::min(RoundUp(at, kPiece) - at, bytes.size()));
    intake.take({into.data + taken, whole_until(at) - taken});
  }
  if (bytes.empty()) return;
  const size_t whole = whole_until(at + bytes.size()) - at;
  intake.take(bytes.first(whole));
  bytes = bytes.subspan(whole);
  at += whole;
  copy(bytes.size());
}

}  // namespace

RemoteSlice Regions::expose(LocalSlice into, uint32_t token) {
  ROCECOLL_CHECK(into.size >= 1);
  if (free_.empty()) {
    ROCECOLL_CHECK(slots_.size() < kMaxRegions);
    free_.push_back(static_cast<uint32_t>(slots_.size()));
    slots_.emplace_back().generation = first_generation_;
  }
  const uint32_t index = free_.back();
  free_.pop_back();
  Slot& slot = slots_[index];
  ROCECOLL_CHECK(!slot.exposed && slot.landed.empty());
  slot.exposed = true;
  slot.token = token;
  slot.key = random_.next();
  slot.into = into;
  return {slot.generation << kIndexBits | index, into.size, slot.key};
}

void Regions::unexpose(const RemoteSlice& slice) {
  const uint32_t index = IndexOf(slice.base);
  ROCECOLL_CHECK(index < slots_.size() && slots_[index].exposed);
  ROCECOLL_CHECK(slots_[index].generation == GenerationOf(slice.base));
  ROCECOLL_CHECK(slots_[index].landed.empty());
  release(index);
}

bool Regions::is_valid(const DataField& data) const {
  const uint32_t index = IndexOf(data.region);
  if (index >= slots_.size()) return false;
  const Slot& slot = slots_[index];
  const uint64_t generation = GenerationOf(data.region);
  if (generation == 0 || generation > slot.generation) return false;
  if (generation < slot.generation) return true;  // of an earlier region in the slot: ignored
  return slot.exposed && data.key == slot.key && data.payload.size() <= slot.into.size &&
         data.offset <= slot.into.size - data.payload.size();
}

std::optional<uint32_t> Regions::write(const DataField& data) {
  ROCECOLL_CHECK(is_valid(data));
  const uint32_t index = IndexOf(data.region);
  Slot& slot = slots_[index];
  if (GenerationOf(data.region) != slot.generation) return std::nullopt;
  const uint64_t end = data.offset + data.payload.size();
  ROCECOLL_CHECK(end <= slot.into.size);
  slot.landed.for_each_missing(data.offset, end, [&](uint64_t from, uint64_t to) {
    const auto bytes = data.payload.subspan(from - data.offset, to - from);
    const bool hands_over =
        slot.into.intake != nullptr && (from == 0 || slot.landed.covers(0, from));
    (hands_over ? HandOver : Copy)(slot.into, from, bytes);
  });
  slot.landed.insert(data.offset, end);
  if (slot.landed.total() < slot.into.size) return std::nullopt;
  const uint32_t token = slot.token;
  release(index);
  return token;
}

void Regions::release(uint32_t index) {
  Slot& slot = slots_[index];
  ROCECOLL_CHECK(slot.exposed);
  slot.exposed = false;
  slot.into = {};
  slot.landed.clear();
  ++slot.generation;
  ROCECOLL_CHECK(slot.generation <= kMaxGeneration);
  free_.push_back(index);
}

void Regions::clear() {
  for (uint32_t index = 0; index < slots_.size(); ++index) {
    if (slots_[index].exposed) release(index);
  }
}

}  // namespace rocecoll
