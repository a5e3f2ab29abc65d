// SPDX-License-Identifier: Apache-2.0
#include "torch/backend/coalescing_backend.h"

#include <utility>

#include "torch/backend/arguments.h"

namespace rocecoll::torch_adapter {

using c10d::OpType;

CoalescingBackend::Batch* CoalescingBackend::open_batch() {
  if (open_batches_.load() == 0) return nullptr;
  const std::lock_guard lock(batches_mutex_);
  const auto found = batches_.find(std::this_thread::get_id());
  return found == batches_.end() ? nullptr : found->second.get();
}

std::unique_ptr<CoalescingBackend::Batch> CoalescingBackend::take_batch() {
  const std::lock_guard lock(batches_mutex_);
  auto node = batches_.extract(std::this_thread::get_id());
  if (node.empty()) return nullptr;
  --open_batches_;
  return std::move(node.mapped());
}

void CoalescingBackend::Drop(const Batch& batch, const char* why) {
  for (const Work::Launch& call : batch.calls) {
    call.work->discard(Status(StatusCode::kAborted, why));
  }
}

void CoalescingBackend::startCoalescing() {
  if (const auto left = take_batch()) {
    Drop(*left, "rocecoll: the batch that the call was part of has never ended");
  }
  const std::lock_guard lock(batches_mutex_);
  batches_.emplace(std::this_thread::get_id(), std::make_unique<Batch>(++started_batches_));
  ++open_batches_;
}

Backend::WorkPtr CoalescingBackend::endCoalescing() {
  const auto batch = take_batch();
  TORCH_CHECK(batch != nullptr,
              "ProcessGroupRocecoll::endCoalescing: this thread has started no batch");
  if (batch->refused) {
    Drop(*batch, "rocecoll: another call of the same batch was refused");
    std::rethrow_exception(batch->refused);
  }
  if (batch->calls.empty()) return nullptr;
  Work::Call call{.type = OpType::COALESCED,
                  .title = "rocecoll:coalesced",
                  .inputs = {},
                  .results = std::move(batch->results)};
  // Started after its calls: it comes behind them on the stream that they store with.
  auto staging = std::make_shared<Staging>();
  if (batch->device) staging->device = std::make_unique<DeviceStaging>(*batch->device);
  std::vector<OperationSpec> none;
  stage(call, none, *staging);
  auto whole = c10::make_intrusive<Work>(runtime(), rank_, std::move(call));
  Work::SubmitBatch(group(), whole, staging, std::move(batch->calls));
  return whole;
}

Backend::WorkPtr CoalescingBackend::launch(Work::Call call, std::vector<OperationSpec> specs,
                                           const std::shared_ptr<Staging>& staging) {
  Batch* batch = open_batch();
  if (batch == nullptr) return Backend::launch(std::move(call), std::move(specs), staging);
  if (staging->device) {
    const c10::Device device = staging->device->device();
    TORCH_CHECK(device == batch->device.value_or(device),
                "rocecoll: the tensors of one batch must be on the same device, got ",
                *batch->device, " and ", device);
    batch->device = device;
  }
  stage(call, specs, *staging);
  batch->results.insert(batch->results.end(), call.results.begin(), call.results.end());
  const Work::Ptr work = make_work(std::move(call), specs, batch->number);
  batch->calls.push_back({work, std::move(specs), staging});
  return work;
}

template <typename Call>
Backend::WorkPtr CoalescingBackend::enter(bool asynchronous, const Call& call) {
  Batch* batch = open_batch();
  if (batch == nullptr) return call();
  try {
    WorkPtr work = call();
    return asynchronous ? work : nullptr;
  } catch (...) {
    if (!batch->refused) batch->refused = std::current_exception();
    return nullptr;
  }
}

Backend::WorkPtr CoalescingBackend::allreduce(Tensors& tensors,
                                              const c10d::AllreduceOptions& options) {
  return enter(options.asyncOp, [&] { return Backend::allreduce(tensors, options); });
}

// Its messages depend on what the other ranks have, so it cannot be one launch with others.
Backend::WorkPtr CoalescingBackend::allreduce_sparse(Tensors& tensors,
                                                     const c10d::AllreduceOptions& options) {
  return enter(options.asyncOp, [&] {
    if (open_batch() != nullptr) Refuse("allreduce", "a sparse tensor cannot be part of a batch");
    return Backend::allreduce_sparse(tensors, options);
  });
}

Backend::WorkPtr CoalescingBackend::allreduce_coalesced(
    Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) {
  return enter(options.asyncOp, [&] { return Backend::allreduce_coalesced(tensors, options); });
}

Backend::WorkPtr CoalescingBackend::broadcast(Tensors& tensors,
                                              const c10d::BroadcastOptions& options) {
  return enter(options.asyncOp, [&] { return Backend::broadcast(tensors, options); });
}

Backend::WorkPtr CoalescingBackend::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  return enter(options.asyncOp, [&] { return Backend::reduce(tensors, options); });
}

Backend::WorkPtr CoalescingBackend::allgather(TensorLists& outputs, Tensors& inputs,
                                              const c10d::AllgatherOptions& options) {
  return enter(options.asyncOp, [&] { return Backend::allgather(outputs, inputs, options); });
}

Backend::WorkPtr CoalescingBackend::allgather_coalesced(TensorLists& outputs, Tensors& inputs,
                                                        const c10d::AllgatherOptions& options) {
  return enter(options.asyncOp,
               [&] { return Backend::allgather_coalesced(outputs, inputs, options); });
}

Backend::WorkPtr CoalescingBackend::_allgather_base(at::Tensor& output, at::Tensor& input,
                                                    const c10d::AllgatherOptions& options) {
  return enter(options.asyncOp, [&] { return Backend::_allgather_base(output, input, options); });
}

Backend::WorkPtr CoalescingBackend::allgather_into_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) {
  return enter(options.asyncOp,
               [&] { return Backend::allgather_into_tensor_coalesced(outputs, inputs, options); });
}

Backend::WorkPtr CoalescingBackend::reduce_scatter(Tensors& outputs, TensorLists& inputs,
                                                   const c10d::ReduceScatterOptions& options) {
  return enter(options.asyncOp, [&] { return Backend::reduce_scatter(outputs, inputs, options); });
}

Backend::WorkPtr CoalescingBackend::_reduce_scatter_base(
    at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& options) {
  return enter(options.asyncOp,
               [&] { return Backend::_reduce_scatter_base(output, input, options); });
}

Backend::WorkPtr CoalescingBackend::reduce_scatter_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::ReduceScatterOptions& options) {
  return enter(options.asyncOp,
               [&] { return Backend::reduce_scatter_tensor_coalesced(outputs, inputs, options); });
}

Backend::WorkPtr CoalescingBackend::gather(TensorLists& outputs, Tensors& inputs,
                                           const c10d::GatherOptions& options) {
  return enter(options.asyncOp, [&] { return Backend::gather(outputs, inputs, options); });
}

Backend::WorkPtr CoalescingBackend::scatter(Tensors& outputs, TensorLists& inputs,
                                            const c10d::ScatterOptions& options) {
  return enter(options.asyncOp, [&] { return Backend::scatter(outputs, inputs, options); });
}

Backend::WorkPtr CoalescingBackend::alltoall(Tensors& outputs, Tensors& inputs,
                                             const c10d::AllToAllOptions& options) {
  return enter(options.asyncOp, [&] { return Backend::alltoall(outputs, inputs, options); });
}

Backend::WorkPtr CoalescingBackend::alltoall_base(at::Tensor& output, at::Tensor& input,
                                                  std::vector<int64_t>& output_splits,
                                                  std::vector<int64_t>& input_splits,
                                                  const c10d::AllToAllOptions& options) {
  return enter(options.asyncOp, [&] {
    return Backend::alltoall_base(output, input, output_splits, input_splits, options);
  });
}

Backend::WorkPtr CoalescingBackend::send(Tensors& tensors, int to, int tag) {
  return enter(true, [&] { return Backend::send(tensors, to, tag); });
}

Backend::WorkPtr CoalescingBackend::recv(Tensors& tensors, int from, int tag) {
  return enter(true, [&] { return Backend::recv(tensors, from, tag); });
}

Backend::WorkPtr CoalescingBackend::recvAnysource(Tensors& tensors, int tag) {
  return enter(true, [&] { return Backend::recvAnysource(tensors, tag); });
}

Backend::WorkPtr CoalescingBackend::barrier(const c10d::BarrierOptions& options) {
  return enter(options.asyncOp, [&] { return Backend::barrier(options); });
}

}  // namespace rocecoll::torch_adapter
