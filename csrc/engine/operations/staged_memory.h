// SPDX-License-Identifier: Apache-2.0
// Memory that reaches the host, and leaves it, piece by piece while an operation runs: tensors of
// accelerators. The operation's buffers only name places in it, which the engine never touches.
// Each lane gets host memory for its part of them, from before its input arrives until its output
// has been stored, so that an operation of any size needs no more than its lanes in flight; and
// copies, network and reduction of different lanes overlap.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/status.h"
#include "base/time.h"

namespace rocecoll {

// How many lanes may be on their way to the host before they start. A lane is about 512 KiB, some
// 20 us of PCIe or of a fast network: eight of them keep both busy for longer than a sleeping
// thread needs to see that a copy is over, and bound what one call puts on the copy stream.
inline constexpr uint32_t kStagedLanesAhead = 8;
// How often the engine asks whether a lane has arrived: after an eighth of the time it has taken so
// far, within these bounds. A gradient may be computed for many milliseconds, and asking must not
// burn a core.
inline constexpr Duration kStagedPollInterval = std::chrono::microseconds(20);
inline constexpr Duration kMaxStagedPollInterval = std::chrono::microseconds(200);
// Of the memory of a lane, and of the parts that input and output have in it.
inline constexpr size_t kStagedAlignment = 64;

struct StagedRange {
  std::byte* place = nullptr;  // counted from the data of the operation's buffer
  std::byte* host = nullptr;   // in the lane's memory
  size_t bytes = 0;
};

// Called under the progress lock by the thread that drives the engine; must not block, throw or
// call back into the engine. An error fails the group (kDevice is the code for what the device's
// runtime says): the other ranks wait for this one. Nothing is called after an error, nor once the
// group has failed, also while fetches are under way: the operation's owner is dropped then, when
// no link can touch memory of lanes any more, and it is the owner that keeps all of that until the
// copies are over.
//
// Ranges are the longest that are contiguous at both ends, in the order of the operation's blocks;
// they are lent for the call. What this rank reads is its input, at the root of a broadcast its
// output; what it writes is its output, except at the root of a broadcast. A lane of which it reads
// nothing is left out of fetch() and fetched(). An operation without elements calls nothing at all.
class StagedMemory {
 public:
  virtual ~StagedMemory() = default;
  // Where the memory of lanes mostly lies, for all of the operation's life: it may be registered
  // with a network.
  virtual std::span<std::byte> arena() = 0;
  // Memory for the next lane, in rising order. Null: there is none now; asked again. Never null
  // while the operation has none, where what was stored counts until it has gone: whatever other
  // operations hold, on this rank or others, one lane of each goes on, and no operation waits but
  // for the network, for copies of its own, and for the streams that these come after.
  virtual Result<std::byte*> take(size_t bytes) = 0;
  // Starts to bring what `lane` reads. Lanes come in rising order, each at most once, and not
  // before all but kStagedLanesAhead of the lanes up to it have started; what is called for lane
  // k+1 may overlap lane k's run.
  virtual Status fetch(uint32_t lane, std::span<const StagedRange> input) = 0;
  // Whether all of it is there. Called for one lane after the other, in order, each until it has
  // arrived.
  virtual Result<bool> fetched(uint32_t lane) = 0;
  // `lane` has ended, and nothing will touch what take() gave for it: starts to take the output
  // away, where there is some, and has the memory back. Lanes end in any order. The operation
  // completes after the last call; waiting for the copies themselves is up to the implementation.
  virtual Status store(uint32_t lane, std::byte* memory, std::span<const StagedRange> output) = 0;
};

}  // namespace rocecoll
