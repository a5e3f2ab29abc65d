// SPDX-License-Identifier: Apache-2.0
#include "engine/operations/lane_staging.h"

#include <algorithm>
#include <utility>

#include "base/arithmetic.h"
#include "engine/operations/segments.h"

namespace rocecoll {
namespace {

// The next look comes after this part of the wait so far, which bounds what polling adds to it.
constexpr int kLookAfterPart = 8;

const OperationBuffer& BufferOf(const OperationSpec& spec, Buffer which) {
  return which == Buffer::kInput ? spec.input : spec.output;
}

}  // namespace

bool LaneStaging::has(Buffer which) const {
  return ContentsOf(which, spec_->collective, is_root_) != Contents::kNothing;
}

void LaneStaging::begin(const OperationSpec& spec, Rank rank, uint32_t lanes) {
  *this = {};
  spec_ = &spec;
  is_root_ = rank == spec.root;
  lanes_ = lanes;
  if (GivesOutput(spec.collective, is_root_)) std::swap(reads_, writes_);
  const auto bytes_of = [&](Buffer which) -> size_t {
    if (!has(which)) return 0;
    const Partition largest = LanePartition(spec, BufferOf(spec, which).partition, 0, lanes);
    return RoundUp(largest.total() * SizeOf(spec.type), kStagedAlignment);
  };
  output_bytes_ = bytes_of(Buffer::kOutput);
  const bool in_place =
      has(Buffer::kInput) && has(Buffer::kOutput) && spec.input.data == spec.output.data;
  if (!in_place) output_offset_ = bytes_of(Buffer::kInput);
}

const std::vector<StagedRange>& LaneStaging::ranges(Buffer which, uint32_t lane,
                                                    std::byte* memory) {
  ranges_.clear();
  if (!has(which)) return ranges_;
  const OperationBuffer& buffer = BufferOf(*spec_, which);
  const size_t element_bytes = SizeOf(spec_->type);
  const Partition partition = LanePartition(*spec_, buffer.partition, lane, lanes_);
  const Blocks all = Blocks::Run(which, 0, partition.blocks());
  const BoundBuffer places{static_cast<std::byte*>(buffer.data), partition};
  const BoundBuffer packed{part(which, memory), partition.packed()};
  ForEachPair(packed, all, places, all, element_bytes,
              [&](std::byte* host, std::byte* place, uint64_t elements) {
                ranges_.push_back({place, host, elements * element_bytes});
              });
  return ranges_;
}

void LaneStaging::fail(Status why) {
  status_ = std::move(why);
  next_look_ = Instant::min();
}

// Prepares as many lanes as there is memory for.
void LaneStaging::prepare(uint32_t lane) {
  const uint32_t ahead = has(reads_) ? kStagedLanesAhead : 1;
  const uint32_t end = std::min(lanes_, lane + ahead);
  for (; next_ < end && status_.ok(); ++next_) {
    Coming& coming = coming_[next_ % kStagedLanesAhead];
    coming = {};
    if (lane_bytes() == 0) continue;
    const Result<std::byte*> memory = spec_->staged->take(lane_bytes());
    if (!memory.ok()) return fail(memory.status());
    if (memory.value() == nullptr) return;
    coming.memory = memory.value();
    if (!has(reads_)) continue;
    const auto& input = ranges(reads_, next_, coming.memory);
    coming.fetches = !input.empty();
    if (!coming.fetches) continue;
    if (Status status = spec_->staged->fetch(next_, input); !status.ok()) fail(std::move(status));
  }
}

Result<bool> LaneStaging::arrived(uint32_t lane) {
  if (next_ <= lane) return false;  // there is no memory for it yet
  return coming_[lane % kStagedLanesAhead].fetches ? spec_->staged->fetched(lane)
                                                   : Result<bool>(true);
}

bool LaneStaging::ready(Instant now, uint32_t lane) {
  if (!status_.ok()) return false;
  if (lane < here_) return true;
  if (waits_ && now < next_look_) return false;
  prepare(lane);
  if (!status_.ok()) return false;
  const Result<bool> here = arrived(lane);
  if (!here.ok()) {
    fail(here.status());
    return false;
  }
  if (!here.value()) {
    if (!waits_) waits_since_ = now;
    waits_ = true;
    next_look_ = now + std::clamp((now - waits_since_) / kLookAfterPart, kStagedPollInterval,
                                  kMaxStagedPollInterval);
    return false;
  }
  here_ = lane + 1;
  waits_ = false;
  next_look_ = kNever;
  return true;
}

void LaneStaging::store(uint32_t lane, std::byte* memory) {
  if (!status_.ok() || memory == nullptr) return;
  const auto& output = ranges(writes_, lane, memory);
  if (Status status = spec_->staged->store(lane, memory, output); !status.ok()) {
    fail(std::move(status));
  }
}

}  // namespace rocecoll
