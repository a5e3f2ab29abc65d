// SPDX-License-Identifier: Apache-2.0
#include "torch/backend/backend.h"

#include <numeric>
#include <utility>

#include "torch/backend/arguments.h"
#include "torch/process/errors.h"

namespace rocecoll::torch_adapter {

using c10d::OpType;
using std::chrono::milliseconds;

namespace {

Work::Call MakeCall(OpType type, const char* title) {
  Work::Call call;
  call.type = type;
  call.title = title;
  return call;
}

std::vector<Rank> GlobalRanks(const GroupSpec& group) {
  if (!group.global_ranks.empty()) return group.global_ranks;
  std::vector<Rank> ranks(group.addresses.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

}  // namespace

Backend::Backend(std::shared_ptr<RuntimeHandle> runtime, GroupSpec group, AlgorithmTable algorithms,
                 c10::intrusive_ptr<Options> options)
    : c10d::Backend(static_cast<int>(group.rank), static_cast<int>(group.addresses.size())),
      runtime_(std::move(runtime)),
      spec_(group),
      algorithms_(std::move(algorithms)),
      global_ranks_(std::make_shared<const std::vector<Rank>>(GlobalRanks(group))),
      options_(std::move(options)),
      timeout_(std::chrono::duration_cast<milliseconds>(group.timeout)) {
  Result<GroupId> added = runtime_->add_group(std::move(group));
  if (!added.ok()) Throw(added.status());
  group_ = added.value();
  init();
}

Backend::~Backend() { Backend::shutdown(); }

void Backend::setTimeout(milliseconds timeout) {
  timeout_ = timeout;
  options_->timeout = timeout;
  runtime_->progress().set_timeout(group_, Saturated(timeout));
}

c10d::ErrorType Backend::getError() {
  switch (runtime_->progress().group_status(group_).code()) {
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
  runtime_->progress().abort(
      group_, Status(StatusCode::kAborted,
                     "rocecoll: the process group was aborted by rank " + std::to_string(rank_)));
}

void Backend::shutdown() { runtime_->remove_group(group_); }

OperationSpec Backend::make_spec(Collective collective, milliseconds timeout) const {
  OperationSpec spec;
  spec.collective = collective;
  if (timeout > milliseconds(0)) spec.timeout = Saturated(timeout);
  spec.algorithm = algorithms_[static_cast<size_t>(collective)];
  return spec;
}

Work::Ptr Backend::make_work(Work::Call call, const std::vector<OperationSpec>& specs,
                             uint64_t batch) {
  call.record = observe(call, specs, batch);
  if (completion_hook_->is_set()) call.hook = completion_hook_;
  return c10::make_intrusive<Work>(runtime_, rank_, std::move(call));
}

void Backend::stage(Work::Call& call, std::vector<OperationSpec>& specs, Staging& staging) {
  if (!staging.device) return;
  call.device = staging.device->device();
  staging.device->start(copy_streams_, specs);
}

Backend::WorkPtr Backend::launch(Work::Call call, std::vector<OperationSpec> specs,
                                 const std::shared_ptr<Staging>& staging) {
  stage(call, specs, *staging);
  auto work = make_work(std::move(call), specs);
  Work::Submit(group_, {work, std::move(specs), staging});
  return work;
}

Backend::WorkPtr Backend::all_reduce(const char* function, Tensors& tensors, Work::Call call,
                                     const c10d::AllreduceOptions& options) {
  auto staging = std::make_shared<Staging>();
  std::vector<OperationSpec> specs;
  specs.reserve(tensors.size());
  for (const at::Tensor& tensor : tensors) {
    OperationSpec spec = make_spec(Collective::kAllreduce, options.timeout);
    spec.type = ToDataType(tensor.scalar_type());
    SetReduction(function, options.reduceOp, spec);
    spec.input = spec.output = EvenBuffer(tensor, ranks(), Access::kReadWrite, *staging);
    specs.push_back(std::move(spec));
  }
  call.inputs = call.results = tensors;
  call.asynchronous = options.asyncOp;
  return launch(std::move(call), std::move(specs), staging);
}

Backend::WorkPtr Backend::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  if (!tensors.empty() && tensors[0].layout() != at::kStrided) {
    return allreduce_sparse(tensors, options);
  }
  Single("allreduce", tensors);
  return all_reduce("allreduce", tensors, MakeCall(OpType::ALLREDUCE, "rocecoll:all_reduce"),
                    options);
}

Backend::WorkPtr Backend::allreduce_coalesced(Tensors& tensors,
                                              const c10d::AllreduceCoalescedOptions& options) {
  constexpr const char* kFunction = "allreduce_coalesced";
  if (tensors.empty()) Refuse(kFunction, "requires non-empty tensor list");
  for (const at::Tensor& tensor : tensors) {
    CheckTensor(kFunction, tensor, tensor.scalar_type());
    if (tensor.scalar_type() != tensors[0].scalar_type()) {
      Refuse(kFunction, "tensors must all have the same type");
    }
  }
  return all_reduce(kFunction, tensors,
                    MakeCall(OpType::ALLREDUCE_COALESCED, "rocecoll:all_reduce_coalesced"),
                    options);
}

Backend::WorkPtr Backend::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  constexpr const char* kFunction = "broadcast";
  CheckRoot(kFunction, options.rootRank, size_);
  if (options.rootTensor < 0 || options.rootTensor >= static_cast<int64_t>(tensors.size())) {
    Refuse(kFunction, "invalid root tensor: " + std::to_string(options.rootTensor));
  }
  const at::Tensor& tensor = Single(kFunction, tensors);
  auto staging = std::make_shared<Staging>();
  OperationSpec spec = make_spec(Collective::kBroadcast, options.timeout);
  spec.type = ToDataType(tensor.scalar_type());
  spec.root = static_cast<Rank>(options.rootRank);
  const Access access = options.rootRank == rank_ ? Access::kRead : Access::kWrite;
  spec.output = EvenBuffer(tensor, ranks(), access, *staging);
  return launch({.type = OpType::BROADCAST,
                 .title = "rocecoll:broadcast",
                 .inputs = tensors,
                 .results = tensors,
                 .asynchronous = options.asyncOp},
                {std::move(spec)}, staging);
}

Backend::WorkPtr Backend::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  constexpr const char* kFunction = "reduce";
  CheckRoot(kFunction, options.rootRank, size_);
  if (options.rootTensor < 0 || options.rootTensor >= static_cast<int64_t>(tensors.size())) {
    Refuse(kFunction, "invalid root tensor: " + std::to_string(options.rootTensor));
  }
  const at::Tensor& tensor = Single(kFunction, tensors);
  auto staging = std::make_shared<Staging>();
  OperationSpec spec = make_spec(Collective::kReduce, options.timeout);
  spec.type = ToDataType(tensor.scalar_type());
  spec.root = static_cast<Rank>(options.rootRank);
  SetReduction(kFunction, options.reduceOp, spec);
  const bool is_root = options.rootRank == rank_;
  spec.input = EvenBuffer(tensor, ranks(), is_root ? Access::kReadWrite : Access::kRead, *staging);
  if (is_root) spec.output = spec.input;
  return launch({.type = OpType::REDUCE,
                 .title = "rocecoll:reduce",
                 .inputs = tensors,
                 .results = tensors,
                 .asynchronous = options.asyncOp},
                {std::move(spec)}, staging);
}

Backend::WorkPtr Backend::barrier(const c10d::BarrierOptions& options) {
  return launch({.type = OpType::BARRIER,
                 .title = "rocecoll:barrier",
                 .inputs = {},
                 .results = {},
                 .asynchronous = options.asyncOp},
                {make_spec(Collective::kBarrier, options.timeout)}, std::make_shared<Staging>());
}

}  // namespace rocecoll::torch_adapter
