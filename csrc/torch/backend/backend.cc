// SPDX-License-Identifier: Apache-2.0
#include "torch/backend/backend.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/InferenceMode.h>

#include <numeric>
#include <utility>

#include "base/named_status.h"
#include "torch/backend/arguments.h"
#include "torch/process/errors.h"
#include "torch/tensors/local_reduction.h"
#include "torch/tensors/page_allocator.h"
#include "torch/tensors/sparse_reduction.h"

namespace rocecoll::torch_adapter {

using c10d::OpType;
using std::chrono::milliseconds;

namespace {

constexpr std::string_view kNotDescribed = "undefined";  // new_group() without group_desc

std::vector<Rank> GlobalRanks(const GroupSpec& group) {
  if (!group.global_ranks.empty()) return group.global_ranks;
  std::vector<Rank> ranks(group.addresses.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

bool IsMessage(OpType type) {
  return type == OpType::SEND || type == OpType::RECV || type == OpType::RECVANYSOURCE;
}

}  // namespace

Backend::Backend(std::shared_ptr<Runtime> runtime, GroupSpec group, AlgorithmTable algorithms,
                 c10::intrusive_ptr<Options> options)
    : BackendInterface(static_cast<int>(group.rank), static_cast<int>(group.addresses.size())),
      runtime_(std::move(runtime)),
      spec_(group),
      facts_{rank_, size_, std::move(algorithms)},
      global_ranks_(std::make_shared<const std::vector<Rank>>(GlobalRanks(group))),
      options_(std::move(options)),
      devices_(runtime_->options().staging_bytes),
      timeout_(std::chrono::duration_cast<milliseconds>(group.timeout)) {
  Result<GroupId> added = ProgressOf(*runtime_).add_group(std::move(group));
  if (!added.ok()) Throw(added.status());
  group_ = added.value();
  init();
}

Backend::~Backend() { Backend::shutdown(); }

void Backend::setTimeout(milliseconds timeout) {
  timeout_ = timeout;
  options_->timeout = timeout;
  ProgressOf(*runtime_).set_timeout(group_, Saturated(timeout));
}

c10d::ErrorType Backend::getError() {
  switch (ProgressOf(*runtime_).group_status(group_).code()) {
    case StatusCode::kOk:
      return c10d::ErrorType::SUCCESS;
    case StatusCode::kTimeout:
      return c10d::ErrorType::TIMEOUT;
    case StatusCode::kPeerLost:
    case StatusCode::kPeerLeft:
    case StatusCode::kNoContact:
    case StatusCode::kAborted:
    case StatusCode::kMismatch:
      return c10d::ErrorType::REMOTE_ERROR;
    default:
      return c10d::ErrorType::COMM_ERROR;
  }
}

void Backend::abort() {
  ProgressOf(*runtime_).abort(
      group_, NamedStatus(StatusCode::kAborted,
                          "the process group was aborted by rank " + std::to_string(rank_)));
}

void Backend::shutdown() {
  if (runtime_->forked()) return;
  const std::string& description = getGroupDesc();
  runtime_->progress().remove_group(group_,
                                    description == kNotDescribed ? std::string() : description);
}

void Backend::registerOnCompletionHook(
    std::function<void(std::shared_ptr<c10d::WorkInfo>)>&& hook) {
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

void Backend::stage(Request& request) {
  if (!request.staging->device) return;
  request.call.device = request.staging->device->device();
  request.staging->device->start(devices_, request.specs);
}

Work::Launch Backend::make_work(Request request, uint64_t batch) {
  stage(request);
  request.call.record = observe(request, batch);
  if (completion_hook_->is_set()) request.call.hook = completion_hook_;
  if (IsMessage(request.call.type)) request.call.habit = wait_habit_;
  return {c10::make_intrusive<Work>(runtime_, rank_, std::move(request.call)),
          std::move(request.specs), std::move(request.staging)};
}

Backend::WorkPtr Backend::submit(Request request) {
  Work::Launch launch = make_work(std::move(request));
  Work::Ptr work = launch.work;
  Work::Submit(group_, std::move(launch));
  return work;
}

Backend::WorkPtr Backend::add(Batch& batch, Request request) {
  batch.admit(request);
  const bool asynchronous = request.call.asynchronous;
  batch.calls.push_back(make_work(std::move(request), batch.number));
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
  auto work = c10::make_intrusive<Work>(runtime_, rank_, std::move(whole.call));
  Work::SubmitBatch(group_, work, std::move(whole.staging), std::move(batch->calls));
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
  Request request = SparseAllReduceRequest(facts_, tensors, options);
  const at::NoGradGuard no_grad;
  auto reduction =
      std::make_shared<SparseReduction>(GroupView{runtime_, group_, static_cast<Rank>(rank_),
                                                  facts_.ranks(), request.specs.front().timeout},
                                        ReduceLocally(ReduceOp::kSum, tensors));
  OperationPtr first = reduction->begin();
  Work::Launch launch = make_work(std::move(request));
  Work::Ptr work = launch.work;
  Work::Run(group_, std::move(launch), std::move(first), *sparse_steps_, [reduction, tensors] {
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

}  // namespace rocecoll::torch_adapter
