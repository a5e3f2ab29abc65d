// SPDX-License-Identifier: Apache-2.0
// What a call returns: one or, for coalesced calls, several operations of the engine, or a batch of
// such works.
#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

#include "engine/operations/operation.h"
#include "engine/progress/wait_habit.h"
#include "runtime/runtime_owner.h"
#include "torch/interface/torch_version.h"
#include "torch/observing/recorder.h"
#include "torch/process/completion_pool.h"
#include "torch/tensors/device_copies.h"
#include "torch/tensors/tensor_layout.h"
#include "torch/work/abort_hooks.h"
#include "torch/work/completion_hook.h"
#include "torch/work/success_hooks.h"

namespace rocecoll::torch_adapter {

// Owned by its caller and, until it is complete, by its operations: dropping it never disturbs what
// runs. Completion, in this order: temporaries are copied back, the future is completed, waiters
// wake. It happens on the thread that found the last operation done, with an accelerator's tensors
// on the device's, or on the CompletionPool once somebody holds the future and may have attached
// callbacks. Works and tensors are only ever
// dropped on threads that may wait for Python's lock: the operations' owners are the last to hold
// them.
//
// With an accelerator's tensors completion means that the last copy to the device is queued:
// waiters make their current stream wait for it, not the host. isCompleted() waits for the copies.
class Work : public c10d::Work {
 public:
  struct Call {
    c10d::OpType type = c10d::OpType::UNKNOWN;
    const char* title = nullptr;                        // "rocecoll:<op>", what profilers show
    std::vector<at::Tensor> inputs;                     // what profilers take shapes from; not kept
    std::vector<at::Tensor> results;                    // what the future yields
    size_t lists = 1;                                   // in which: several are equally long
    bool asynchronous = true;                           // the caller will not wait at once
    int source_rank = -1;                               // receives: the sender
    CallRecordPtr record = nullptr;                     // told of start and end
    std::shared_ptr<CompletionHook> hook = nullptr;     // told of begin and end
    std::shared_ptr<AbortHooks> abort_hooks = nullptr;  // told of a failure
    std::shared_ptr<const SuccessHooks> success_hooks =
        nullptr;                                 // told of the end, if it is no failure
    uint64_t completion_key = 0;                 // by which these tell works apart
    std::shared_ptr<WaitHabit> habit = nullptr;  // messages: told of submission and wait
    std::optional<c10::Device> device = {};      // an accelerator, if the tensors are there
  };

  using Ptr = c10::intrusive_ptr<Work>;

  // What a work is to run.
  struct Launch {
    Ptr work;
    std::vector<OperationSpec> specs;  // at least one
    std::shared_ptr<Staging> staging;
  };

  Work(std::shared_ptr<Runtime> runtime, int rank, Call call);

  // Submits the operations in order. Throws when they are refused with nothing sent; a refusal
  // after that completes the work with that error.
  static void Submit(GroupId group, Launch launch);
  // As Submit(), for the operations of all `members` at once, at least one. `batch` completes after
  // the last of them, with the first error among them; `staging` is the batch's own.
  static void SubmitBatch(GroupId group, const Ptr& batch, std::shared_ptr<Staging> staging,
                          std::vector<Launch> members);
  // Instead of the launch's operations runs `body` on `queue`, and completes when that has returned
  // or thrown. `first` has been submitted and gives the work its sequence number; the body waits
  // for it.
  static void Run(GroupId group, Launch launch, OperationPtr first, SerialQueue& queue,
                  std::function<void()> body);
  // Completes a work that will not be submitted.
  void discard(const Status& why);

  bool isCompleted() override;
  bool isSuccess() const override;
  int sourceRank() const override;
  std::vector<at::Tensor> result() override;
  // Drives the engine in the calling thread. An operation past its own timeout fails; a `timeout`
  // given here only ends the waiting, as does what the handler of a signal raises.
  bool wait(std::chrono::milliseconds timeout) override;
  // Makes the caller's current stream wait for the results, once they are on their way.
  void synchronize() override;
  void abort() override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  // From the call, not from the operation's start in the engine, until completion.
  float getDuration() const override;
  uint64_t getSequencenumber() const override;
#if TORCH_VERSION_MINOR >= 15
  uint64_t getCompletionKey() const override { return call_.completion_key; }
#endif

 private:
  // What an operation keeps alive until it is done and its callback has run.
  struct Kept {
    Ptr work;
    std::shared_ptr<Staging> staging;
    Ptr batch;  // whose completion the work's is part of
    std::shared_ptr<Staging> batch_staging;

    Kept(Ptr work, std::shared_ptr<Staging> staging);
    // What is of an accelerator is let go on a thread that sits on the device.
    ~Kept();
    Kept(const Kept&) = delete;
    Kept& operator=(const Kept&) = delete;
  };
  // Appends what the launch's work needs done to `operations`.
  static void Prepare(GroupId group, Launch launch, std::vector<OperationPtr>& operations);
  Progress::Next next() const;
  Status submit_all(const std::vector<OperationPtr>& operations, size_t& accepted) const;
  void keep_accepted(size_t accepted, const Status& refused);
  void on_operation_done(const Status& status, size_t count);
  void store_results(const std::shared_ptr<Staging>& staging);
  void on_stored(Staging& staging, const Status& status);
  void fail_group(const Status& why) const;
  void conclude(const std::shared_ptr<Staging>& staging);
  void complete(Staging& staging);
  void announce();
  Ptr batch() const { return batch_ == nullptr ? Ptr() : Ptr::reclaim_copy(batch_); }
  void await_on_stream() const;
  // That wait() was given too little time, and who is waited for. Null: only the completion is.
  [[noreturn]] void give_up(std::chrono::milliseconds timeout, const Operation* pending) const;
  void hold_back();

  const std::shared_ptr<Runtime> runtime_;
  Call call_;
  const c10::intrusive_ptr<c10::ivalue::Future> future_;
  const std::chrono::steady_clock::time_point started_;
  GroupId group_ = 0;
  std::vector<OperationPtr> operations_;  // all that were submitted
  std::shared_ptr<Staging> staging_;      // until completion
  Work* batch_ = nullptr;                 // completes when all its members have; kept by them
  std::exception_ptr raised_;             // by the body of Run()
  std::atomic<bool> submitted_{false};
  std::atomic<size_t> pending_{0};
  std::atomic<int64_t> duration_ns_{-1};
  // Set before completion is announced, with an accelerator's tensors.
  std::shared_ptr<DeviceEvent> results_stored_;  // null: nothing was
  std::optional<c10::Stream> result_stream_;     // which comes after that

  // Guards the first error, and future_shared_ against a future being completed meanwhile.
  std::mutex state_mutex_;
  Status failure_;
  Marks members_stored_;  // of a batch
  bool future_shared_ = false;
};

}  // namespace rocecoll::torch_adapter
