// SPDX-License-Identifier: Apache-2.0
// Moves the lanes of one operation in and out of staged memory (staged_memory.h): gets memory for
// them, fetches ahead, says when a lane's input has come, stores what a lane has written.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/rank.h"
#include "base/status.h"
#include "base/time.h"
#include "engine/operations/operation.h"
#include "engine/operations/staged_memory.h"

namespace rocecoll {

class LaneStaging {
 public:
  // `spec`, which names the staged memory, outlives the run.
  void begin(const OperationSpec& spec, Rank rank, uint32_t lanes);
  void end() { *this = {}; }
  bool active() const { return spec_ != nullptr; }
  // What the largest lane needs.
  size_t lane_bytes() const { return output_offset_ + output_bytes_; }
  // Gets memory for, and starts the fetches of, up to kStagedLanesAhead lanes from `lane`, the next
  // one to start. True if `lane` may start. After an error never true, and store() does nothing.
  bool ready(Instant now, uint32_t lane);
  // The memory of a lane that is ready(), until store(). Null if it needs none.
  std::byte* memory(uint32_t lane) const { return coming_[lane % kStagedLanesAhead].memory; }
  // Where the lane's part of a buffer lies in its memory, packed.
  std::byte* part(Buffer buffer, std::byte* memory) const {
    return buffer == Buffer::kOutput && memory != nullptr ? memory + output_offset_ : memory;
  }
  void store(uint32_t lane, std::byte* memory);
  const Status& status() const { return status_; }
  // When ready() must be asked again; kNever unless a lane waits. At once after an error.
  Instant next_look() const { return next_look_; }

 private:
  struct Coming {
    std::byte* memory = nullptr;
    bool fetches = false;
  };

  const std::vector<StagedRange>& ranges(Buffer which, uint32_t lane, std::byte* memory);
  bool has(Buffer which) const;
  void prepare(uint32_t lane);
  Result<bool> arrived(uint32_t lane);
  void fail(Status why);

  const OperationSpec* spec_ = nullptr;
  bool is_root_ = false;
  Buffer reads_ = Buffer::kInput;
  Buffer writes_ = Buffer::kOutput;
  size_t output_offset_ = 0;  // 0: the output lies where the input does, or there is no input
  size_t output_bytes_ = 0;
  uint32_t lanes_ = 0;
  uint32_t next_ = 0;                               // to be given memory
  std::array<Coming, kStagedLanesAhead> coming_{};  // by lane, of those not yet started
  uint32_t here_ = 0;                               // lanes below it have their input
  bool waits_ = false;
  Instant waits_since_{};
  Instant next_look_ = kNever;
  Status status_;
  std::vector<StagedRange> ranges_;
};

}  // namespace rocecoll
