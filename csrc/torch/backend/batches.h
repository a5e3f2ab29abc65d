// SPDX-License-Identifier: Apache-2.0
// Batches: the calls of a thread between startCoalescing() and endCoalescing() are sent together by
// the latter. batch_isend_irecv() and _coalescing_manager(device=...) use them.
//
// - A batch belongs to the thread that started it; calls of other threads are sent as usual.
// - A call in a batch that is not asynchronous returns no work, as nothing can be waited for yet.
// - A refused call throws at endCoalescing(), and nothing of the batch is sent. Throwing at once
//   would leave torch's own record of the batch open, and later collectives of the group would do
//   nothing.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "torch/backend/membership.h"
#include "torch/backend/requests.h"

namespace rocecoll::torch_adapter {

// Only the thread that it belongs to uses it.
struct Batch {
  explicit Batch(uint64_t number) : number(number) {}

  // Notes the results and the device of a call that becomes one of `calls`. Throws if its tensors
  // are on another device than those of earlier calls.
  void admit(const Request& request);
  // The first reason counts.
  void refuse(std::exception_ptr why);
  // Completes the works of its calls, which will not be sent.
  void discard(const char* why) const;

  const uint64_t number;     // from 1
  MembershipPtr membership;  // of its calls; null before the first
  std::vector<Work::Launch> calls;
  Tensors results;
  std::optional<c10::Device> device;  // the accelerator, if tensors of one are among them
  std::exception_ptr refused;
};

// The open batches of a group, at most one a thread. Thread-safe.
class Batches {
 public:
  // A batch of this thread that was never ended is discarded.
  void open();
  // This thread's open batch, or null. Costs one load while no thread has any.
  Batch* find();
  // Takes it out; null if there is none.
  std::unique_ptr<Batch> take();

 private:
  std::mutex mutex_;
  std::unordered_map<uint64_t, std::unique_ptr<Batch>> open_;  // by thread
  std::atomic<size_t> count_{0};
  uint64_t started_ = 0;
};

}  // namespace rocecoll::torch_adapter
