// SPDX-License-Identifier: Apache-2.0
// The c10d backend "rocecoll": checks arguments, lays tensors out for the engine, submits. Contains
// no algorithm and no state beyond its group. Tensors of the CPU and of accelerators.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <vector>

#include "engine/operation.h"
#include "runtime/option_value.h"
#include "torch/backend/options.h"
#include "torch/observing/recorder.h"
#include "torch/process/runtime_handle.h"
#include "torch/process/serial_queue.h"
#include "torch/work/completion_hook.h"
#include "torch/work/work.h"

namespace rocecoll::torch_adapter {

class Backend : public c10d::Backend {
 public:
  using Tensors = std::vector<at::Tensor>;
  using TensorLists = std::vector<Tensors>;
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;
  using Options = torch_adapter::Options;  // instead of the base class's

  // Throws when the group cannot be added. `group.addresses` decides the number of ranks.
  Backend(std::shared_ptr<RuntimeHandle> runtime, GroupSpec group, AlgorithmTable algorithms,
          c10::intrusive_ptr<Options> options);
  ~Backend() override;

  const std::string getBackendName() const override { return "rocecoll"; }
  c10::intrusive_ptr<c10d::Backend::Options> getBackendOptions() override { return options_; }
  void setTimeout(std::chrono::milliseconds timeout) override;
  void setSequenceNumberForGroup() override {}  // counted from 0 on every rank
  uint64_t getSequenceNumberForGroup() override { return sequence_; }
  c10d::ErrorType getError() override;
  void abort() override;
  void shutdown() override;
  // `hook` sees every work begun afterwards, except batches, whose members it sees.
  void registerOnCompletionHook(
      std::function<void(std::shared_ptr<c10d::WorkInfo>)>&& hook) override;
  void waitForPendingWorks() override;
  void enableCollectivesTiming() override {}  // every work knows its times
  // CPU tensors only; their device has no index.
  bool supportsTensorAlloc(c10::DeviceIndex device) override { return device < 0; }
  at::Tensor allocateTensor(long size, at::TensorOptions options) override;

  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  // Of sparse COO tensors, SUM only: the coalesced sum, the same on every rank.
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
  // Rank 0 names the ranks that did not come in time. Failing it fails the group.
  void monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) override;

  bool supportsSplitting() const override { return true; }
  bool supportsShrinking() const override { return true; }
  // A group of `ranks`, ranks of this one in their new order; null where this rank is not among
  // them. All of them call it, and those who split off the same ranks again do so equally often.
  // Settings are the parent's. Neither store nor messages are used.
  c10::intrusive_ptr<c10d::Backend> split(
      const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
      const c10::intrusive_ptr<c10d::Backend::Options>& options) override;
  // As split() of all other ranks, which are those that call it.
  c10::intrusive_ptr<c10d::Backend> shrink(
      const std::vector<int64_t>& ranks_to_exclude, int shrink_flags,
      const c10::intrusive_ptr<c10d::Backend::Options>& options) override;

 protected:
  // Every call ends here.
  virtual WorkPtr launch(Work::Call call, std::vector<OperationSpec> specs,
                         const std::shared_ptr<Staging>& staging);
  // The part of launch() that tensors of an accelerator need, at the time of the call.
  void stage(Work::Call& call, std::vector<OperationSpec>& specs, Staging& staging);
  const std::shared_ptr<RuntimeHandle>& runtime() const { return runtime_; }
  GroupId group() const { return group_; }
  // The work of a call, counted and shown to whoever watches, in the caller's thread. Calls of one
  // batch share its number; 0: no batch.
  Work::Ptr make_work(Work::Call call, const std::vector<OperationSpec>& specs, uint64_t batch = 0);
  const AlgorithmTable& algorithms() const { return algorithms_; }
  // A backend of the same class for another group.
  virtual c10::intrusive_ptr<Backend> make_alike(GroupSpec group,
                                                 c10::intrusive_ptr<Options> options) const = 0;

 private:
  // Counts a call, shows it to the profiler and records it; null while nobody records.
  CallRecordPtr observe(const Work::Call& call, const std::vector<OperationSpec>& specs,
                        uint64_t batch = 0);
  // An operation of `collective` with the caller's timeout and the chosen algorithm.
  OperationSpec make_spec(Collective collective, std::chrono::milliseconds timeout) const;
  void show_profiler(const Work::Call& call, const std::vector<OperationSpec>& specs,
                     uint64_t sequence, bool message) const;
  WorkPtr all_reduce(const char* function, Tensors& tensors, Work::Call call,
                     const c10d::AllreduceOptions& options);
  OperationSpec gather_into(const char* function, at::Tensor& output, at::Tensor& input,
                            const c10d::AllgatherOptions& options, Staging& staging) const;
  OperationSpec gather_list(const char* function, const Tensors& outputs, const at::Tensor& input,
                            const c10d::AllgatherOptions& options, Staging& staging) const;
  OperationSpec scatter_from(const char* function, at::Tensor& output, at::Tensor& input,
                             const c10d::ReduceScatterOptions& options, Staging& staging) const;
  // Without `peer`: from any rank.
  WorkPtr point_to_point(c10d::OpType type, const char* title, Tensors& tensors,
                         std::optional<int> peer, int tag);
  OperationPtr exchange_token(Collective collective, Rank peer);
  void report_to_rank_zero(Duration limit);
  void await_all_ranks(Duration limit, bool wait_all_ranks);
  uint32_t ranks() const { return static_cast<uint32_t>(size_); }
  c10::intrusive_ptr<Backend> part(const char* function, const std::vector<Rank>& members,
                                   const c10::intrusive_ptr<c10d::Backend::Options>& options);

  const std::shared_ptr<RuntimeHandle> runtime_;
  const GroupSpec spec_;  // as it was made
  const AlgorithmTable algorithms_;
  const std::shared_ptr<const std::vector<Rank>> global_ranks_;  // by group rank
  const std::shared_ptr<SerialQueue> sparse_steps_ = std::make_shared<SerialQueue>();
  const std::shared_ptr<CompletionHook> completion_hook_ = std::make_shared<CompletionHook>();
  const c10::intrusive_ptr<Options> options_;
  std::mutex parts_mutex_;
  std::map<std::vector<Rank>, uint64_t> parts_;  // groups made of these ranks so far
  GroupId group_ = 0;
  std::atomic<uint64_t> sequence_{0};          // of collectives
  std::atomic<uint64_t> message_sequence_{0};  // of sends and receives
  CopyStreams copy_streams_;
  std::atomic<std::chrono::milliseconds> timeout_;  // of operations that have none of their own
};

}  // namespace rocecoll::torch_adapter
