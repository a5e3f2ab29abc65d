// SPDX-License-Identifier: Apache-2.0
#include "engine/operations/lane_staging.h"

#include <algorithm>
#include <utility>

#include "engine/operations/segments.h"

namespace rocecoll {
namespace {

// The part of a wait after which the next look comes: at most so much is added to it.
constexpr int kLookAfterPart = 8;

}  // namespace

void LaneStaging::begin(const OperationSpec& spec, Rank rank, uint32_t lanes) {
  spec_ = &spec;
  lanes_ = lanes;
  const bool is_root = rank == spec.root;
  const auto holds = [&](Buffer buffer) {
    return ContentsOf(buffer, spec.collective, is_root) != Contents::kNothing;
  };
  if (holds(Buffer::kInput)) reads_ = &spec.input;
  if (holds(Buffer::kOutput)) writes_ = &spec.output;
  if (GivesOutput(spec.collective, is_root)) reads_ = std::exchange(writes_, nullptr);
}

const std::vector<HostRange>& LaneStaging::ranges(const OperationBuffer* buffer, uint32_t lane) {
  ranges_.clear();
  if (buffer == nullptr) return ranges_;
  const Partition partition = LanePartition(*spec_, buffer->partition, lane, lanes_);
  const size_t element_bytes = SizeOf(spec_->type);
  const Blocks all = Blocks::Run(Buffer::kInput, 0, partition.blocks());
  ForEachSegment(partition, all, [&](const ElementRange& range) {
    ranges_.push_back({static_cast<std::byte*>(buffer->data) + range.offset * element_bytes,
                       range.count * element_bytes});
  });
  return ranges_;
}

void LaneStaging::fail(Status why) {
  status_ = std::move(why);
  next_look_ = Instant::min();
}

void LaneStaging::fetch_ahead(uint32_t lane) {
  const uint32_t end = std::min(lanes_, lane + kStagedLanesAhead);
  for (; next_fetch_ < end && status_.ok(); ++next_fetch_) {
    const auto& input = ranges(reads_, next_fetch_);
    fetches_[next_fetch_ % kStagedLanesAhead] = !input.empty();
    if (input.empty()) continue;
    if (Status status = spec_->staged->fetch(next_fetch_, input); !status.ok()) {
      fail(std::move(status));
    }
  }
}

bool LaneStaging::ready(Instant now, uint32_t lane) {
  if (!status_.ok()) return false;
  if (lane < here_) return true;
  if (waits_ && now < next_look_) return false;
  fetch_ahead(lane);
  if (!status_.ok()) return false;
  Result<bool> fetched = true;
  if (fetches_[lane % kStagedLanesAhead]) fetched = spec_->staged->fetched(lane);
  if (!fetched.ok()) {
    fail(fetched.status());
    return false;
  }
  if (!fetched.value()) {
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

void LaneStaging::store(uint32_t lane) {
  if (!status_.ok()) return;
  const auto& output = ranges(writes_, lane);
  if (output.empty()) return;
  if (Status status = spec_->staged->store(lane, output); !status.ok()) fail(std::move(status));
}

}  // namespace rocecoll
