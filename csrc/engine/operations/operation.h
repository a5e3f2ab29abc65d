// SPDX-License-Identifier: Apache-2.0
// One collective or point-to-point call, as submitted by a caller and completed by the engine.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "base/status.h"
#include "base/time.h"
#include "collectives/data_type.h"
#include "collectives/partition.h"
#include "collectives/program.h"
#include "engine/operations/gate.h"
#include "engine/operations/staged_memory.h"

namespace rocecoll {

// The caller's memory behind one buffer of the operation. `partition` cuts it into the blocks that
// collectives/collective.h lists for the collective; offsets count elements from `data`.
struct OperationBuffer {
  void* data = nullptr;
  Partition partition;
};

struct OperationSpec {
  Collective collective = Collective::kBarrier;
  DataType type = DataType::kUint8;
  ReduceOp reduce_op = ReduceOp::kSum;
  double premul_factor = 1.0;  // kPremulSum
  Rank root = 0;               // rooted collectives; the peer (group rank) of kSend and kRecv
  uint32_t user_tag = 0;       // kSend, kRecv: below 2^31
  // kRecv: from the peer whose message with this tag comes first, among those that no other receive
  // waits for; `root` is not read. Operation::source() tells which peer it was.
  bool any_source = false;
  // kAlltoall, kGather, kScatter: every block of every rank has the same size. False for their
  // v-variants, where a rank knows its own sizes only; the same on all ranks.
  bool uniform = true;
  OperationBuffer input;
  OperationBuffer output;          // broadcast, allreduce, reduce: may be the input's memory
  StagedMemory* staged = nullptr;  // fills and empties the buffers; kept alive by the owner
  // Collectives: neither this one nor those behind it start before the gate is open. Null: no gate.
  std::shared_ptr<const Gate> gate;
  Duration timeout{0};          // 0: the group's
  std::string algorithm;        // empty: chosen by size (tests and benchmarks name one)
  bool only_preferred = false;  // where the algorithm cannot do it, the choice by size stands
};

// Shared by the caller and the engine. The caller must keep the buffers alive until done(): put
// what owns them into `owner`, which is dropped after completion, outside all locks, on a thread
// that may wait for what that takes.
class Operation {
 public:
  Operation(OperationSpec spec, std::shared_ptr<void> owner)
      : spec_(std::move(spec)), owner_(std::move(owner)) {}

  const OperationSpec& spec() const { return spec_; }
  bool done() const { return done_.load(std::memory_order_acquire); }
  // Valid once done().
  const Status& status() const { return status_; }
  // Sequence number within the group (collectives) or among the sends/receives. Valid once done().
  uint64_t sequence() const { return sequence_; }
  // kRecv: the group rank that sent the message. Valid once done() with an ok status.
  Rank source() const { return source_; }

  // Runs once, on some thread, after done() became true and before the owner is dropped, while no
  // lock of rocecoll is held. Set before submit. Must not throw, nor wait for a lock that others
  // hold for long (Python's), not even by dropping what it captured: put that into the owner.
  void set_on_complete(std::function<void(const Operation&)> callback) {
    on_complete_ = std::move(callback);
  }

  // For the engine alone, in this order. All before set_done() run under the progress lock.
  void set_sequence(uint64_t sequence) { sequence_ = sequence; }
  void set_source(Rank source) { source_ = source; }
  void set_status(Status status) { status_ = std::move(status); }
  void set_done() { done_.store(true, std::memory_order_release); }
  void run_callback() {
    if (auto callback = std::exchange(on_complete_, nullptr)) callback(*this);
  }
  // Null if the operation has none.
  std::shared_ptr<void> take_owner() { return std::move(owner_); }

 private:
  OperationSpec spec_;
  std::shared_ptr<void> owner_;
  std::function<void(const Operation&)> on_complete_;
  Status status_;
  uint64_t sequence_ = 0;
  Rank source_ = 0;
  std::atomic<bool> done_{false};
};
using OperationPtr = std::shared_ptr<Operation>;

}  // namespace rocecoll
