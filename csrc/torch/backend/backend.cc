// SPDX-License-Identifier: Apache-2.0
#include "torch/backend/backend.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/InferenceMode.h>

#include <utility>

#include "base/named_status.h"
#include "interpreter/process_end.h"
#include "torch/backend/arguments.h"
#include "torch/backend/monitored_barrier.h"
#include "torch/process/completion_pool.h"
#include "torch/process/errors.h"
#include "torch/tensors/local_reduction.h"
#include "torch/tensors/page_allocator.h"
#include "torch/tensors/sparse_reduction.h"

namespace rocecoll::torch_adapter {

using c10d::OpType;
using std::chrono::milliseconds;

namespace {

constexpr std::string_view kNotDescribed = "undefined";  // new_group() without group_desc

bool IsMessage(OpType type) {
  return type == OpType::SEND || type == OpType::RECV || type == OpType::RECVANYSOURCE;
}

}  // namespace

Backend::Backend(std::shared_ptr<Runtime> runtime, GroupSpec group, AlgorithmTable algorithms,
                 c10::intrusive_ptr<Options> options)
    : BackendInterface(static_cast<int>(group.rank), static_cast<int>(group.addresses.size())),
      runtime_(std::move(runtime)),
      options_(std::move(options)),
      devices_(runtime_->options().staging_bytes),
      timeout_(std::chrono::duration_cast<milliseconds>(group.timeout)),
      membership_(std::make_shared<Membership>(runtime_, std::move(group), std::move(algorithms))) {
  const GroupSpec& spec = membership_->spec;
  options_->group_name = spec.name;
  options_->global_ranks_in_group.assign(spec.global_ranks.begin(), spec.global_ranks.end());
  init();
}

Backend::~Backend() { Backend::shutdown(); }

MembershipPtr Backend::current() const {
  const std::lock_guard lock(membership_mutex_);
  return membership_;
}

MembershipPtr Backend::membership() const {
  const std::lock_guard lock(membership_mutex_);
  TORCH_CHECK(
      !awaits_members_, kNamePrefix,
      "the process group was made with enable_reconfigure=True and has no members before it "
      "is reconfigured for the first time");
  return membership_;
}

void Backend::setTimeout(milliseconds timeout) {
  TORCH_CHECK_VALUE(timeout > milliseconds(0), kNamePrefix, "group \"", current()->spec.name,
                    "\": the timeout must be positive");
  timeout_ = timeout;
  options_->timeout = timeout;
  ProgressOf(*runtime_).set_timeout(current()->group, Saturated(timeout));
}

c10d::ErrorType Backend::getError() {
  const MembershipPtr group = current();
  switch (ProgressOf(*runtime_).group_status(group->group).code()) {
    case StatusCode::kOk:
      return c10d::ErrorType::SUCCESS;
    case StatusCode::kTimeout:
      return c10d::ErrorType::TIMEOUT;
    case StatusCode::kPeerLost:
    case StatusCode::kPeerLeft:
    case StatusCode::kNoContact:
    case StatusCode::kMismatch:
      return c10d::ErrorType::REMOTE_ERROR;
    case StatusCode::kAborted:  // torch's tests of backends: what the caller did is no error
      return group->aborted_here ? c10d::ErrorType::SUCCESS : c10d::ErrorType::REMOTE_ERROR;
    default:
      return c10d::ErrorType::COMM_ERROR;
  }
}

void Backend::abort() {
  const MembershipPtr group = current();
  group->aborted_here = true;
  abort_hooks_->on_end(group->group);
  ProgressOf(*runtime_).abort(
      group->group, NamedStatus(StatusCode::kAborted, "the process group was aborted by rank " +
                                                          std::to_string(group->rank())));
}

void Backend::shutdown() {
  if (runtime_->forked()) return;  // where another thread's locks may be held for good
  const std::string& description = getGroupDesc();
  const MembershipPtr group = current();
  abort_hooks_->on_end(group->group);
  runtime_->progress().remove_group(group->group,
                                    description == kNotDescribed ? std::string() : description);
}

void Backend::registerOnCompletionHook(
    std::function<void(std::shared_ptr<c10d::WorkInfo>)>&& hook) {
  CompletionPool::instance().require_thread();
  completion_hook_->set(std::move(hook));
  // What hasHooks() looks at.
  onCompletionHook_ = [](const std::shared_ptr<c10d::WorkInfo>&) {};
}

void Backend::waitForPendingWorks() { completion_hook_->wait_for_all(); }

at::Tensor Backend::allocateTensor(long size, at::TensorOptions options) {
  constexpr const char* kFunction = "allocateTensor";
  if (size < 0) Refuse(kFunction, "invalid tensor size: " + std::to_string(size));
  if (!options.device().is_cpu()) {
    Refuse(kFunction, "only CPU tensors are supported, got " + options.device().str());
  }
  return at::detail::empty_generic({size}, &PageAllocator::Instance(),
                                   c10::DispatchKeySet(c10::DispatchKey::CPU),
                                   c10::typeMetaToScalarType(options.dtype()), std::nullopt);
}

void Backend::extend(Request& request) {
  const milliseconds extension = extensions_.current();
  if (extension == milliseconds(0)) return;
  for (OperationSpec& spec : request.specs) {
    const Duration own = spec.timeout > Duration{0} ? spec.timeout : Saturated(timeout_.load());
    spec.timeout = After(Instant(own), Saturated(extension)).time_since_epoch();
  }
}

void Backend::stage(Request& request) {
  if (!request.staging->device) return;
  request.call.device = request.staging->device->device();
  request.staging->device->start(devices_, request.specs);
}

Work::Launch Backend::make_work(Membership& group, Request request, uint64_t batch) {
  stage(request);
  request.call.record = observe(group, request, batch);
  if (completion_hook_->is_set()) request.call.hook = completion_hook_;
  if (IsMessage(request.call.type)) request.call.habit = wait_habit_;
  request.call.abort_hooks = abort_hooks_;
  if (success_hooks_->any()) {
    request.call.success_hooks = success_hooks_;
    request.call.completion_key = SuccessHooks::NextKey();
  }
  auto work = c10::make_intrusive<Work>(runtime_, group.facts.rank, std::move(request.call));
  extensions_.on_made(work);
  return {std::move(work), std::move(request.specs), std::move(request.staging)};
}

Backend::WorkPtr Backend::submit(Membership& group, Request request) {
  extend(request);
  Work::Launch launch = make_work(group, std::move(request));
  Work::Ptr work = launch.work;
  Work::Submit(group.group, std::move(launch));
  return work;
}

Backend::WorkPtr Backend::add(Batch& batch, MembershipPtr group, Request request) {
  TORCH_CHECK(batch.membership == nullptr || batch.membership == group, kNamePrefix,
              "the process group was reconfigured while a batch was open");
  batch.membership = std::move(group);
  extend(request);
  batch.admit(request);
  const bool asynchronous = request.call.asynchronous;
  batch.calls.push_back(make_work(*batch.membership, std::move(request), batch.number));
  return asynchronous ? batch.calls.back().work : nullptr;
}

Backend::WorkPtr Backend::endCoalescing() {
  const auto batch = batches_.take();
  TORCH_CHECK(batch != nullptr,
              "ProcessGroupRocecoll::endCoalescing: this thread has started no batch");
  if (batch->refused) {
    batch->discard("another call of the same batch was refused");
    std::rethrow_exception(batch->refused);
  }
  if (batch->calls.empty()) return nullptr;
  Request whole(OpType::COALESCED, "rocecoll:coalesced", {}, std::move(batch->results), true);
  // It starts after its calls, so it comes after them on the stream that stores their results.
  if (batch->device) whole.staging->device = std::make_unique<DeviceStaging>(*batch->device);
  stage(whole);
  const Membership& group = *batch->membership;
  auto work = c10::make_intrusive<Work>(runtime_, group.facts.rank, std::move(whole.call));
  Work::SubmitBatch(group.group, work, std::move(whole.staging), std::move(batch->calls));
  return work;
}

Backend::WorkPtr Backend::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  if (!tensors.empty() && tensors[0].layout() != at::kStrided) {
    return allreduce_sparse(tensors, options);
  }
  return run(AllReduceRequest, tensors, options);
}

Backend::WorkPtr Backend::allreduce_sparse(Tensors& tensors,
                                           const c10d::AllreduceOptions& options) {
  // Its messages depend on what the other ranks have, so it cannot be sent with other calls.
  if (batches_.find() != nullptr) {
    return run([](const GroupFacts&) -> Request {
      Refuse("allreduce", "a sparse tensor cannot be part of a batch");
    });
  }
  const MembershipPtr group = membership();
  Request request = SparseAllReduceRequest(group->facts, tensors, options);
  CompletionPool::instance().require_thread();
  extend(request);
  const at::NoGradGuard no_grad;
  auto reduction = std::make_shared<SparseReduction>(
      GroupView{runtime_, group->group, group->rank(), group->facts.ranks(),
                request.specs.front().timeout},
      ReduceLocally(ReduceOp::kSum, tensors));
  OperationPtr first = reduction->begin();
  Work::Launch launch = make_work(*group, std::move(request));
  Work::Ptr work = launch.work;
  Work::Run(group->group, std::move(launch), std::move(first), *sparse_steps_,
            [reduction, tensors] {
              const c10::InferenceMode as_made(tensors[0].is_inference());
              const at::NoGradGuard no_grad_here;
              const at::Tensor sum = reduction->finish();
              for (const at::Tensor& tensor : tensors) tensor.copy_(sum);
            });
  return work;
}

std::shared_ptr<const Gate> Backend::gate_behind_sparse() {
  if (sparse_steps_->idle()) return nullptr;
  auto gate = std::make_shared<Gate>();
  sparse_steps_->run([runtime = runtime_, gate] { runtime->progress().open(*gate); });
  return gate;
}

Backend::WorkPtr Backend::barrier(const c10d::BarrierOptions& options) {
  return run([&](const GroupFacts& facts) {
    Request request = BarrierRequest(facts, options);
    request.specs.front().gate = gate_behind_sparse();
    return request;
  });
}

void Backend::monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) {
  const milliseconds limit =
      options.timeout == c10d::kUnsetTimeout ? timeout_.load() : options.timeout;
  const MembershipPtr group = membership();
  Request request(OpType::BARRIER, "rocecoll:monitored_barrier", {}, {}, false);
  request.specs.push_back(group->facts.spec(Collective::kBarrier, limit));
  const CallRecordPtr record = observe(*group, request);
  if (record) record->start();
  const MonitoredBarrier barrier(*group, *runtime_, Saturated(timeout_.load()));
  try {
    barrier.run(Saturated(limit), wait_all_ranks);
  } catch (const pybind11::error_already_set&) {
    if (record) record->end(barrier.interruption());
    throw;
  } catch (const std::exception& error) {
    if (record) record->end(error.what());
    abort_hooks_->on_failed_call(runtime_, group->group);
    if (!CompletionPool::serves_here()) ProcessEnd::instance().hold_back(false);
    throw;
  }
  if (record) record->end("");
}

}  // namespace rocecoll::torch_adapter
