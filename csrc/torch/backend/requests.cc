// SPDX-License-Identifier: Apache-2.0
// Requests of collectives whose ranks have the same tensors, and of messages.
#include "torch/backend/requests.h"

#include <string>

#include "torch/backend/arguments.h"

namespace rocecoll::torch_adapter {

using c10d::OpType;

namespace {

// One operation for each tensor of the call.
void AddAllReduces(const char* function, const GroupFacts& group,
                   const c10d::AllreduceOptions& options, Request& request) {
  request.specs.reserve(request.call.inputs.size());
  for (const at::Tensor& tensor : request.call.inputs) {
    OperationSpec& spec = request.add(group, Collective::kAllreduce, options.timeout, tensor);
    SetReduction(function, options.reduceOp, spec);
    spec.input = spec.output =
        EvenBuffer(tensor, group.ranks(), Access::kReadWrite, *request.staging);
  }
}

// The tensor of a collective with a root.
const at::Tensor& RootedTensor(const char* function, const GroupFacts& group,
                               const Tensors& tensors, int64_t root, int64_t root_tensor) {
  CheckRoot(function, root, group.size);
  if (root_tensor < 0 || root_tensor >= static_cast<int64_t>(tensors.size())) {
    Refuse(function, "invalid root tensor: " + std::to_string(root_tensor));
  }
  return Single(function, tensors);
}

// Without `peer`: from any rank.
Request MessageRequest(const char* function, OpType type, const char* title,
                       const GroupFacts& group, const Tensors& tensors, std::optional<int> peer,
                       int tag) {
  if (tensors.size() != 1) Refuse(function, "takes a single tensor");
  const at::Tensor& tensor = Single(function, tensors);
  if (peer) {
    if (*peer < 0 || *peer >= group.size) {
      Refuse(function, "invalid rank: " + std::to_string(*peer));
    }
    if (*peer == group.rank) {
      Refuse(function, "rank " + std::to_string(*peer) + " cannot exchange messages with itself");
    }
  } else if (group.size == 1) {
    Refuse(function, "there is no other rank in the group");
  }
  if (tag < 0) {
    Refuse(function, "invalid tag: " + std::to_string(tag) + ". Tag must be nonnegative");
  }
  const bool sends = type == OpType::SEND;
  Request request(type, title, tensors, tensors, true);
  if (type == OpType::RECV) request.call.source_rank = *peer;
  OperationSpec& spec = request.add(group, sends ? Collective::kSend : Collective::kRecv,
                                    c10d::kUnsetTimeout, tensor);
  if (peer) spec.root = static_cast<Rank>(*peer);
  spec.any_source = !peer;
  spec.user_tag = static_cast<uint32_t>(tag);
  OperationBuffer& buffer = sends ? spec.input : spec.output;
  buffer = EvenBuffer(tensor, 1, sends ? Access::kRead : Access::kWrite, *request.staging);
  return request;
}

}  // namespace

OperationSpec GroupFacts::spec(Collective collective, std::chrono::milliseconds timeout) const {
  OperationSpec spec;
  spec.collective = collective;
  if (timeout > std::chrono::milliseconds(0)) spec.timeout = Saturated(timeout);
  spec.algorithm = algorithms[static_cast<size_t>(collective)];
  return spec;
}

OperationSpec& Request::add(const GroupFacts& group, Collective collective,
                            std::chrono::milliseconds timeout, const at::Tensor& tensor) {
  OperationSpec& spec = specs.emplace_back(group.spec(collective, timeout));
  spec.type = ToDataType(tensor.scalar_type());
  return spec;
}

Request AllReduceRequest(const GroupFacts& group, const Tensors& tensors,
                         const c10d::AllreduceOptions& options) {
  constexpr const char* kFunction = "allreduce";
  Single(kFunction, tensors);
  Request request(OpType::ALLREDUCE, "rocecoll:all_reduce", tensors, tensors, options.asyncOp);
  AddAllReduces(kFunction, group, options, request);
  return request;
}

Request AllReduceCoalescedRequest(const GroupFacts& group, const Tensors& tensors,
                                  const c10d::AllreduceOptions& options) {
  constexpr const char* kFunction = "allreduce_coalesced";
  if (tensors.empty()) Refuse(kFunction, "requires non-empty tensor list");
  for (const at::Tensor& tensor : tensors) {
    CheckTensor(kFunction, tensor, tensor.scalar_type());
    if (tensor.scalar_type() != tensors[0].scalar_type()) {
      Refuse(kFunction, "tensors must all have the same type");
    }
  }
  Request request(OpType::ALLREDUCE_COALESCED, "rocecoll:all_reduce_coalesced", tensors, tensors,
                  options.asyncOp);
  AddAllReduces(kFunction, group, options, request);
  return request;
}

Request SparseAllReduceRequest(const GroupFacts& group, const Tensors& tensors,
                               const c10d::AllreduceOptions& options) {
  constexpr const char* kFunction = "allreduce";
  if (tensors.empty()) Refuse(kFunction, "requires non-empty tensor list");
  if (tensors.size() != 1) Refuse(kFunction, "requires a single-element tensor list");
  const at::Tensor& tensor = tensors[0];
  if (!tensor.is_sparse()) {
    Refuse(kFunction, c10::str("unsupported layout ", tensor.layout(),
                               ": only strided and sparse COO tensors are supported"));
  }
  if (tensor.device().type() != at::kCPU) {
    Refuse(kFunction,
           "invalid tensor type: sparse tensors must be on the CPU, got " + tensor.device().str());
  }
  if (options.reduceOp != c10d::ReduceOp::SUM) {
    Refuse(kFunction,
           "unsupported reduction operation (allreduce of sparse tensors only works with "
           "ReduceOp.SUM)");
  }
  Request request(OpType::ALLREDUCE, "rocecoll:sparse_all_reduce", tensors, tensors,
                  options.asyncOp);
  request.add(group, Collective::kAllreduce, options.timeout, tensor);
  return request;
}

Request BroadcastRequest(const GroupFacts& group, const Tensors& tensors,
                         const c10d::BroadcastOptions& options) {
  const at::Tensor& tensor =
      RootedTensor("broadcast", group, tensors, options.rootRank, options.rootTensor);
  Request request(OpType::BROADCAST, "rocecoll:broadcast", tensors, tensors, options.asyncOp);
  OperationSpec& spec = request.add(group, Collective::kBroadcast, options.timeout, tensor);
  spec.root = static_cast<Rank>(options.rootRank);
  const Access access = options.rootRank == group.rank ? Access::kRead : Access::kWrite;
  spec.output = EvenBuffer(tensor, group.ranks(), access, *request.staging);
  return request;
}

Request ReduceRequest(const GroupFacts& group, const Tensors& tensors,
                      const c10d::ReduceOptions& options) {
  constexpr const char* kFunction = "reduce";
  const at::Tensor& tensor =
      RootedTensor(kFunction, group, tensors, options.rootRank, options.rootTensor);
  Request request(OpType::REDUCE, "rocecoll:reduce", tensors, tensors, options.asyncOp);
  OperationSpec& spec = request.add(group, Collective::kReduce, options.timeout, tensor);
  spec.root = static_cast<Rank>(options.rootRank);
  SetReduction(kFunction, options.reduceOp, spec);
  const bool is_root = options.rootRank == group.rank;
  const Access access = is_root ? Access::kReadWrite : Access::kRead;
  spec.input = EvenBuffer(tensor, group.ranks(), access, *request.staging);
  if (is_root) spec.output = spec.input;
  return request;
}

Request BarrierRequest(const GroupFacts& group, const c10d::BarrierOptions& options) {
  Request request(OpType::BARRIER, "rocecoll:barrier", {}, {}, options.asyncOp);
  request.specs.push_back(group.spec(Collective::kBarrier, options.timeout));
  return request;
}

Request SendRequest(const GroupFacts& group, const Tensors& tensors, int to, int tag) {
  return MessageRequest("send", OpType::SEND, "rocecoll:send", group, tensors, to, tag);
}

Request RecvRequest(const GroupFacts& group, const Tensors& tensors, std::optional<int> from,
                    int tag) {
  if (from) return MessageRequest("recv", OpType::RECV, "rocecoll:recv", group, tensors, from, tag);
  return MessageRequest("recvAnysource", OpType::RECVANYSOURCE, "rocecoll:recvAnySource", group,
                        tensors, from, tag);
}

}  // namespace rocecoll::torch_adapter
