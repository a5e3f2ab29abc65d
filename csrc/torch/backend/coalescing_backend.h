// SPDX-License-Identifier: Apache-2.0
// Batches: what a thread calls between startCoalescing() and endCoalescing() is sent by the latter,
// at once. batch_isend_irecv() and _coalescing_manager(device=...) use it.
//
// - A batch belongs to the thread that started it; calls of other threads are sent as usual.
// - A call in a batch that is not asynchronous returns no work, since nothing can be waited for
// yet.
// - A refused call throws at endCoalescing(), and nothing of the batch is sent. Thrown at once it
//   would leave torch's own record of open batches behind, which makes later collectives of the
//   group do nothing.
#pragma once

#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>
#include <vector>

#include "torch/backend/backend.h"

namespace rocecoll::torch_adapter {

class CoalescingBackend final : public Backend {
 public:
  using Backend::Backend;

  bool supportsCoalescing() const override { return true; }
  // A batch of this thread that was never ended is dropped.
  void startCoalescing() override;
  // One work for the whole batch; none if nothing was called.
  WorkPtr endCoalescing() override;

  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPtr allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPtr allreduce_coalesced(Tensors& tensors,
                              const c10d::AllreduceCoalescedOptions& options) override;
  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& options) override;
  WorkPtr allgather(TensorLists& outputs, Tensors& inputs,
                    const c10d::AllgatherOptions& options) override;
  WorkPtr allgather_coalesced(TensorLists& outputs, Tensors& inputs,
                              const c10d::AllgatherOptions& options) override;
  WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input,
                          const c10d::AllgatherOptions& options) override;
  WorkPtr allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::AllgatherOptions& options) override;
  WorkPtr reduce_scatter(Tensors& outputs, TensorLists& inputs,
                         const c10d::ReduceScatterOptions& options) override;
  WorkPtr _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                               const c10d::ReduceScatterOptions& options) override;
  WorkPtr reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::ReduceScatterOptions& options) override;
  WorkPtr gather(TensorLists& outputs, Tensors& inputs,
                 const c10d::GatherOptions& options) override;
  WorkPtr scatter(Tensors& outputs, TensorLists& inputs,
                  const c10d::ScatterOptions& options) override;
  WorkPtr alltoall(Tensors& outputs, Tensors& inputs,
                   const c10d::AllToAllOptions& options) override;
  WorkPtr alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_splits,
                        std::vector<int64_t>& input_splits,
                        const c10d::AllToAllOptions& options) override;
  WorkPtr send(Tensors& tensors, int to, int tag) override;
  WorkPtr recv(Tensors& tensors, int from, int tag) override;
  WorkPtr recvAnysource(Tensors& tensors, int tag) override;
  WorkPtr barrier(const c10d::BarrierOptions& options) override;

 protected:
  WorkPtr launch(Work::Call call, std::vector<OperationSpec> specs,
                 const std::shared_ptr<Staging>& staging) override;

  c10::intrusive_ptr<Backend> make_alike(GroupSpec group,
                                         c10::intrusive_ptr<Options> options) const override {
    return c10::make_intrusive<CoalescingBackend>(runtime(), std::move(group), algorithms(),
                                                  std::move(options));
  }

 private:
  struct Batch {
    explicit Batch(uint64_t number) : number(number) {}
    const uint64_t number;  // from 1
    std::vector<Work::Launch> calls;
    Tensors results;
    std::optional<c10::Device> device;  // the accelerator, if tensors of one are among them
    std::exception_ptr refused;         // the first one
  };

  // The batch that this thread has open, else null.
  Batch* open_batch();
  // Takes it out; null if there is none.
  std::unique_ptr<Batch> take_batch();
  static void Drop(const Batch& batch, const char* why);
  // Runs a call of the base class, which ends in launch() unless it is refused.
  template <typename Call>
  WorkPtr enter(bool asynchronous, const Call& call);

  std::mutex batches_mutex_;
  std::unordered_map<std::thread::id, std::unique_ptr<Batch>> batches_;
  std::atomic<size_t> open_batches_{0};
  uint64_t started_batches_ = 0;
};

}  // namespace rocecoll::torch_adapter
