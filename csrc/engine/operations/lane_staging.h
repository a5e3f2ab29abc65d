// SPDX-License-Identifier: Apache-2.0
// Moves the lanes of one operation in and out of staged memory (staged_memory.h): fetches ahead,
// says when a lane's input has come, stores what a lane has written.
#pragma once

#include <array>
#include <cstdint>
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
  // Starts the fetches up to kStagedLanesAhead lanes from `lane`, the next one to start. True if
  // `lane` may start. After an error never true, and store() does nothing.
  bool ready(Instant now, uint32_t lane);
  void store(uint32_t lane);
  const Status& status() const { return status_; }
  // When ready() must be asked again; kNever unless a lane waits. At once after an error.
  Instant next_look() const { return next_look_; }

 private:
  const std::vector<HostRange>& ranges(const OperationBuffer* buffer, uint32_t lane);
  void fetch_ahead(uint32_t lane);
  void fail(Status why);

  const OperationSpec* spec_ = nullptr;
  const OperationBuffer* reads_ = nullptr;   // null: nothing
  const OperationBuffer* writes_ = nullptr;  // null: nothing
  uint32_t lanes_ = 0;
  uint32_t next_fetch_ = 0;
  std::array<bool, kStagedLanesAhead> fetches_{};  // by lane, of those not yet started
  uint32_t here_ = 0;                              // lanes below it have their input
  bool waits_ = false;
  Instant waits_since_{};
  Instant next_look_ = kNever;
  Status status_;
  std::vector<HostRange> ranges_;
};

}  // namespace rocecoll
