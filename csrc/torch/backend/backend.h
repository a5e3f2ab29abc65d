// SPDX-License-Identifier: Apache-2.0
// The c10d backend "rocecoll": turns calls into requests (requests.h) and submits them at once or
// as a batch (batches.h). It contains no algorithm and no state beyond its group. Tensors may be on
// the CPU or on accelerators.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/option_value.h"
#include "runtime/runtime_owner.h"
#include "torch/backend/batches.h"
#include "torch/backend/membership.h"
#include "torch/backend/options.h"
#include "torch/backend/requests.h"
#include "torch/backend/timeout_extensions.h"
#include "torch/interface/c10d_interface.h"
#include "torch/observing/recorder.h"
#include "torch/process/completion_pool.h"
#include "torch/tensors/staging_devices.h"
#include "torch/work/abort_hooks.h"
#include "torch/work/completion_hook.h"
#include "torch/work/work.h"

namespace rocecoll::torch_adapter {

class Backend final : public BackendInterface {
 public:
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;
  using Options = torch_adapter::Options;  // instead of the base class's

  // Throws when the group cannot be added. `group.addresses` decides the number of ranks. Takes
  // `options` for its own, and names the group and its ranks in them.
  Backend(std::shared_ptr<Runtime> runtime, GroupSpec group, AlgorithmTable algorithms,
          c10::intrusive_ptr<Options> options);
  ~Backend() override;

  const std::string getBackendName() const override { return "rocecoll"; }
  c10::intrusive_ptr<c10d::Backend::Options> getBackendOptions() override { return options_; }
  void setTimeout(std::chrono::milliseconds timeout) override;
  void setSequenceNumberForGroup() override {}  // counted from 0 on every rank
  uint64_t getSequenceNumberForGroup() override { return current()->sequence; }
  c10d::ErrorType getError() override;
  void abort() override;
  void shutdown() override;
  // `hook` sees every work begun afterwards, except batches, whose members it sees.
  void registerOnCompletionHook(
      std::function<void(std::shared_ptr<c10d::WorkInfo>)>&& hook) override;
  void waitForPendingWorks() override;
  void enableCollectivesTiming() override {}  // every work knows its times
#ifdef C10D_BACKEND_HAS_HOOKS
  // Hooks run when a call learns that the group has failed, once, unless this rank has aborted it.
  void registerAbortHook(int64_t id, c10d::AbortHook hook) override {
    abort_hooks_->set(id, std::move(hook));
  }
  void unregisterAbortHook(int64_t id) override { abort_hooks_->remove(id); }
  void addEphemeralTimeout(const std::chrono::milliseconds& timeout) override {
    extensions_.add(timeout);
  }
#endif
#if TORCH_VERSION_MINOR >= 15
  bool supportsAbortHooks() const override { return true; }
  bool supportsCompletionHooks() const override { return true; }
  // `hook` sees every work begun afterwards that succeeds, except batches, whose members it sees.
  void registerCompletionHook(int64_t id, c10d::CompletionHook hook) override {
    success_hooks_->set(id, [hook = std::move(hook)](uint64_t key, float duration_ms) {
      hook({key, duration_ms});
    });
  }
  void unregisterCompletionHook(int64_t id) override { success_hooks_->remove(id); }
#endif
  // CPU tensors only; their device has no index.
  bool supportsTensorAlloc(c10::DeviceIndex device) override { return device < 0; }
  at::Tensor allocateTensor(long size, at::TensorOptions options) override;
  // Makes now what calls with tensors of this accelerator need (StagingDevices::prepare()).
  void prepare_staging(c10::Device device) { devices_.prepare(device); }

  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  // Of sparse COO tensors, SUM only: the coalesced sum, the same on every rank.
  WorkPtr allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPtr allreduce_coalesced(Tensors& tensors,
                              const c10d::AllreduceCoalescedOptions& options) override {
    return run(AllReduceCoalescedRequest, tensors, options);
  }
  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    return run(BroadcastRequest, tensors, options);
  }
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& options) override {
    return run(ReduceRequest, tensors, options);
  }
  WorkPtr allgather(TensorLists& outputs, Tensors& inputs,
                    const c10d::AllgatherOptions& options) override {
    return run(AllGatherRequest, outputs, inputs, options);
  }
  WorkPtr allgather_coalesced(TensorLists& outputs, Tensors& inputs,
                              const c10d::AllgatherOptions& options) override {
    return run(AllGatherCoalescedRequest, outputs, inputs, options);
  }
  WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input,
                          const c10d::AllgatherOptions& options) override {
    return run(AllGatherIntoRequest, output, input, options);
  }
  WorkPtr allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::AllgatherOptions& options) override {
    return run(AllGatherIntoCoalescedRequest, outputs, inputs, options);
  }
  WorkPtr reduce_scatter(Tensors& outputs, TensorLists& inputs,
                         const c10d::ReduceScatterOptions& options) override {
    return run(ReduceScatterRequest, outputs, inputs, options);
  }
  WorkPtr _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                               const c10d::ReduceScatterOptions& options) override {
    return run(ReduceScatterFromRequest, output, input, options);
  }
  WorkPtr reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::ReduceScatterOptions& options) override {
    return run(ReduceScatterFromCoalescedRequest, outputs, inputs, options);
  }
  WorkPtr gather(TensorLists& outputs, Tensors& inputs,
                 const c10d::GatherOptions& options) override {
    return run(GatherRequest, outputs, inputs, options);
  }
#if TORCH_VERSION_MINOR >= 14
  WorkPtr gather_single(at::Tensor& output, at::Tensor& input,
                        const c10d::GatherOptions& options) override {
    return run(GatherIntoRequest, output, input, options);
  }
#endif
  WorkPtr scatter(Tensors& outputs, TensorLists& inputs,
                  const c10d::ScatterOptions& options) override {
    return run(ScatterRequest, outputs, inputs, options);
  }
  WorkPtr alltoall(Tensors& outputs, Tensors& inputs,
                   const c10d::AllToAllOptions& options) override {
    return run(AllToAllRequest, outputs, inputs, options);
  }
  WorkPtr alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_splits,
                        std::vector<int64_t>& input_splits,
                        const c10d::AllToAllOptions& options) override {
    return run(AllToAllSplitRequest, output, input, output_splits, input_splits, options);
  }
  WorkPtr send(Tensors& tensors, int to, int tag) override {
    return run(SendRequest, tensors, to, tag);
  }
  WorkPtr recv(Tensors& tensors, int from, int tag) override {
    return run(RecvRequest, tensors, from, tag);
  }
  WorkPtr recvAnysource(Tensors& tensors, int tag) override {
    return run(RecvRequest, tensors, std::nullopt, tag);
  }
  // Comes after all collectives called before it, also sparse ones.
  WorkPtr barrier(const c10d::BarrierOptions& options) override;
  // See monitored_barrier.h.
  void monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) override;

  bool supportsCoalescing() const override { return true; }
  // A batch of this thread that was never ended is discarded.
  void startCoalescing() override { batches_.open(); }
  // One work for the whole batch; none if nothing was called.
  WorkPtr endCoalescing() override;

  bool supportsSplitting() const override { return true; }
  bool supportsShrinking() const override { return true; }
  // Makes a group of `ranks`, which are ranks of this one in their new order; null if this rank is
  // not among them. All of them must call it, equally often for the same ranks. The new group has
  // its parent's settings. Neither the store nor messages are used.
  c10::intrusive_ptr<c10d::Backend> split(
      const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
      const c10::intrusive_ptr<c10d::Backend::Options>& options) override;
  // As split() with all other ranks, which are those that call it.
  c10::intrusive_ptr<c10d::Backend> shrink(
      const std::vector<int64_t>& ranks_to_exclude, int shrink_flags,
      const c10::intrusive_ptr<c10d::Backend::Options>& options) override;

  // A group of other members, of the world's ranks, with the settings of this one.
  c10::intrusive_ptr<Backend> remade(GroupSpec group) const;
#ifdef C10D_BACKEND_HAS_RECONFIGURE
  bool supportsReconfigure() const override { return true; }
  c10d::ReconfigureHandle get_reconfigure_handle() const override;
  // Returns once all have come, with a complete work. Throws Python's exceptions; then the group is
  // as it was. The backend takes no hints.
  WorkPtr reconfigure(const c10d::ReconfigureOptions& options) override;
  // From now on, until it is reconfigured, the group shows `rank` and `size`, and calls throw.
  void await_members(int rank, int size);
  // Takes over the ranks and the group of `made`, which ends with the old ones.
  void adopt(Backend& made);
#endif

 private:
  // Sends the request that `build` makes of the arguments, or adds it to this thread's open batch.
  template <typename Build, typename... Arguments>
  WorkPtr run(const Build& build, const Arguments&... arguments) {
    Batch* batch = batches_.find();
    if (batch == nullptr) {
      const MembershipPtr group = membership();
      return submit(*group, build(group->facts, arguments...));
    }
    try {
      MembershipPtr group = membership();
      Request request = build(group->facts, arguments...);
      return add(*batch, std::move(group), std::move(request));
    } catch (...) {
      batch->refuse(std::current_exception());
      return nullptr;
    }
  }
  // Opens once the steps of all sparse collectives called so far are over; null if none are left.
  std::shared_ptr<const Gate> gate_behind_sparse();
  MembershipPtr current() const;  // who the ranks are now
  // The same for calls: throws while the group waits for its first members.
  MembershipPtr membership() const;
  WorkPtr submit(Membership& group, Request request);
  WorkPtr add(Batch& batch, MembershipPtr group, Request request);
  // Gives the request the time that the program has added to what its options say.
  void extend(Request& request);
  // The part that tensors of an accelerator need at the time of the call.
  void stage(Request& request);
  // Makes the work of a call and what it runs, counts it and shows it to profiler and recorder, all
  // in the caller's thread. Calls of one batch share its number; 0: no batch.
  Work::Launch make_work(Membership& group, Request request, uint64_t batch = 0);
  // Counts a call, shows it to the profiler and records it; null while nobody records.
  CallRecordPtr observe(Membership& group, const Request& request, uint64_t batch = 0);
  void show_profiler(const Membership& group, const Request& request, uint64_t sequence,
                     bool message) const;
  c10::intrusive_ptr<Backend> part(const char* function, Membership& whole,
                                   const std::vector<Rank>& members,
                                   const c10::intrusive_ptr<c10d::Backend::Options>& options);

  const std::shared_ptr<Runtime> runtime_;
  const std::shared_ptr<SerialQueue> sparse_steps_ = std::make_shared<SerialQueue>();
  const std::shared_ptr<CompletionHook> completion_hook_ = std::make_shared<CompletionHook>();
  const std::shared_ptr<AbortHooks> abort_hooks_ = std::make_shared<AbortHooks>();
  const std::shared_ptr<SuccessHooks> success_hooks_ = std::make_shared<SuccessHooks>();
  const std::shared_ptr<WaitHabit> wait_habit_ = std::make_shared<WaitHabit>();
  const c10::intrusive_ptr<Options> options_;
  Batches batches_;
  TimeoutExtensions extensions_;
  StagingDevices devices_;
  std::atomic<std::chrono::milliseconds> timeout_;  // of operations that have none of their own
  mutable std::mutex membership_mutex_;
  MembershipPtr membership_;
  bool awaits_members_ = false;
};

}  // namespace rocecoll::torch_adapter
