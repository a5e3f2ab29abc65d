// SPDX-License-Identifier: Apache-2.0
// The order of the copies of one call between its tensors (placed_tensors.h) and the host memory of
// its lanes. Only the device's thread (device_thread.h) queues them and queries their events; other
// threads tell it what is wanted, and read what it has found out.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/status.h"
#include "engine/operations/staged_memory.h"
#include "torch/process/device_thread.h"
#include "torch/tensors/copy_streams.h"
#include "torch/tensors/device_event.h"
#include "torch/tensors/placed_tensors.h"
#include "torch/tensors/staging_pool.h"

namespace rocecoll::torch_adapter {

using Marks = std::vector<std::shared_ptr<DeviceEvent>>;

class DeviceCopies : public std::enable_shared_from_this<DeviceCopies> {
 public:
  using Memory = std::shared_ptr<LaneMemory>;
  // What one operation reads.
  class Reads {
   public:
    // Lanes that have come, of those asked for, in their order.
    uint32_t arrived() const { return arrived_.load(std::memory_order_acquire); }

   private:
    friend DeviceCopies;
    struct Lane {
      std::vector<StagedRange> ranges;
      Memory memory;
      bool last = true;                    // of those that bring one lane of the operation
      std::shared_ptr<DeviceEvent> event;  // once its copies are queued
    };
    std::deque<Lane> lanes_;  // not yet there, the first `queued_` of them on their way
    size_t queued_ = 0;
    std::atomic<uint32_t> arrived_{0};
  };

  // Notes how far the caller's current stream has come: the call's tensors are ready after that.
  DeviceCopies(c10::Device device, std::shared_ptr<CopyStreams> streams, PlacedTensors tensors);

  const c10::Device device;

  // All of these never block. Memory is held until the copies from or to it are done.
  void fetch(const std::shared_ptr<Reads>& reads, std::span<const StagedRange> ranges,
             Memory memory);
  void store(std::span<const StagedRange> ranges, Memory memory);
  // Of a call that stores nothing itself: its results are there once all of these have passed.
  void join(Marks marks);
  // Runs `then` on the device's thread once all that was to be stored by now is queued there, and
  // tells it what went wrong. It must not throw.
  void when_stored(std::function<void(const Status&)> then);
  // No further copy is wanted. All tensors are kept until those under way are done.
  void end();
  // What went wrong first.
  Status status() const;
  // Whether the caller's stream is known to have come to the call. It never is for a call that
  // neither fetches nor stores.
  bool has_come() const { return has_come_.load(std::memory_order_acquire); }

  // The rest is for when_stored().
  // What is queued there comes after what was stored. `stores_more`: results of the call will be.
  c10::Stream result_stream(bool stores_more);
  // Keeps a tensor that something queued on that stream uses.
  void keep(const at::Tensor& tensor);
  // The point after all that was stored; null if nothing was.
  std::shared_ptr<DeviceEvent> mark_stored();

 private:
  struct Store {
    std::vector<StagedRange> ranges;
    Memory memory;
  };
  // Stores that are queued, and the point behind them.
  struct Leaving {
    std::shared_ptr<DeviceEvent> event;
    std::vector<Memory> memory;
  };

  void run(const char* what, std::function<void()> step);
  bool guard(const char* what, const std::function<void()>& step);
  // On the device's thread, as all below.
  void attend();
  // Whether there is nothing left to look after.
  bool advance();
  void look_after_reads();
  bool ready();
  bool choose_store_stream();
  void look_after_stores();
  void look_after_leaving();
  void tell_those_waiting();
  void queue_copies(Reads& reads);
  void look_at_arrivals(Reads& reads);
  bool may_store(const Store& store);
  std::shared_ptr<DeviceEvent> mark(const c10::Stream& stream);
  void mark_last();
  void drop_wishes();
  void release();
  void lose();

  DeviceThread& thread_;
  const std::shared_ptr<CopyStreams> streams_;

  std::atomic<bool> has_come_{false};
  std::atomic<bool> failed_{false};
  mutable std::mutex mutex_;
  Status failure_;  // under the mutex

  // Of the device's thread.
  Marks before_;  // of the call: what its streams have not come to yet
  PlacedTensors tensors_;
  std::vector<at::Tensor> kept_;
  std::vector<std::shared_ptr<Reads>> reads_;  // of which lanes are on their way
  std::deque<Store> stores_;                   // that have no stream yet
  std::deque<Leaving> leaving_;
  std::vector<std::shared_ptr<DeviceEvent>> events_;  // those that nobody else holds are reused
  std::vector<std::function<void(const Status&)>> waiting_;  // when_stored()
  std::optional<c10::Stream> store_stream_;  // of all results of the call, once it is chosen
  std::shared_ptr<DeviceEvent> stored_;      // after what was stored, but for what keep() tells of
  bool stores_more_ = false;                 // since then
  bool joins_ = false;
  Marks last_;                       // with them all copies are done
  std::vector<Memory> kept_memory_;  // until then
  bool ended_ = false;
  bool watched_ = false;
};

}  // namespace rocecoll::torch_adapter
