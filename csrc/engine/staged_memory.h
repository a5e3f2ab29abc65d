// SPDX-License-Identifier: Apache-2.0
// Memory that reaches the host, and leaves it, piece by piece while an operation runs: tensors of
// accelerators. The operation's buffers name host memory of the whole size; the engine announces
// each lane's pieces of it, so that copies, network and reduction of different lanes overlap.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/status.h"

namespace rocecoll {

struct HostRange {
  std::byte* data = nullptr;
  size_t bytes = 0;
};

// Called under the progress lock by whoever drives the engine, on any thread; must not block, throw
// or call back into the engine. An error fails the group: the other ranks wait for this one.
class StagedMemory {
 public:
  virtual ~StagedMemory() = default;
  // Starts to bring what `lane` reads. Lanes come in order, each exactly once, at most
  // kStagedLanesAhead before they start; what is called for lane k+1 may overlap lane k's run.
  virtual Status fetch(uint32_t lane, std::span<const HostRange> input) = 0;
  // Whether all of it is there. Asked every kStagedPollInterval until it is.
  virtual Result<bool> fetched(uint32_t lane) = 0;
  // `lane` has ended and nothing will touch `output` any more: starts to take it away. Lanes end in
  // any order. The operation completes after the last call; whoever waits for the copies themselves
  // is the implementation's business.
  virtual Status store(uint32_t lane, std::span<const HostRange> output) = 0;
};

}  // namespace rocecoll
