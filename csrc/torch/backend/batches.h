// SPDX-License-Identifier: Apache-2.0
// Batches: what a thread calls between startCoalescing() and endCoalescing() is sent by the latter,
// at once. batch_isend_irecv() and _coalescing_manager(device=...) use it.
//
// - A batch belongs to the thread that started it; calls of other threads are sent as usual.
// - A call in a batch that is not asynchronous returns no work, since nothing can be waited for
//   yet.
// - A refused call throws at endCoalescing(), and nothing of the batch is sent. Thrown at once it
//   would leave torch's own record of open batches behind, which makes later collectives of the
//   group do nothing.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>
#include <vector>

#include "torch/backend/requests.h"

namespace rocecoll::torch_adapter {

// Used by the thread that it belongs to, and no other.
struct Batch {
  explicit Batch(uint64_t number) : number(number) {}

  // Notes what the batch has of a call that becomes one of `calls`. Throws if its tensors are on
  // another device than those of the calls before.
  void admit(const Request& request);
  // The first reason counts.
  void refuse(std::exception_ptr why);
  // Completes the works of its calls, which will not be sent.
  void discard(const char* why) const;

  const uint64_t number;  // from 1
  std::vector<Work::Launch> calls;
  Tensors results;
  std::optional<c10::Device> device;  // the accelerator, if tensors of one are among them
  std::exception_ptr refused;
};

// The open ones of a group, at most one a thread. Thread-safe.
class Batches {
 public:
  // A batch of this thread that was never ended is discarded.
  void open();
  // The batch that this thread has open, else null. Costs a load while no thread has one.
  Batch* find();
  // Takes it out; null if there is none.
  std::unique_ptr<Batch> take();

 private:
  std::mutex mutex_;
  std::unordered_map<std::thread::id, std::unique_ptr<Batch>> open_;
  std::atomic<size_t> count_{0};
  uint64_t started_ = 0;
};

}  // namespace rocecoll::torch_adapter
