// SPDX-License-Identifier: Apache-2.0
// Requests of collectives whose ranks have the same tensors, and of messages.
#include "torch/backend/requests.h"

#include <string>

#include "collectives/reduce.h"
#include "torch/backend/arguments.h"
#include "torch/interface/c10d_interface.h"
#include "torch/tensors/local_reduction.h"
#include "torch/tensors/own_tags.h"

namespace rocecoll::torch_adapter {

using c10d::OpType;

namespace {

// The tensors of a list, reduced as `spec` says, before other ranks have a part in it.
at::Tensor ReducedList(const char* function, const OperationSpec& spec, const Tensors& tensors) {
  if (spec.reduce_op == ReduceOp::kAvg) {
    Refuse(function, c10::str("ReduceOp.AVG requires a single-element tensor list, got ",
                              tensors.size(), " tensors: average them before the call"));
  }
  const Status meaning = CheckReduction(spec.type, spec.reduce_op);
  if (!meaning.ok()) Refuse(function, meaning.message());
  return ReduceLocally(spec.reduce_op, tensors);
}

// An all_reduce in place, of all tensors of a list together.
void AddAllReduce(const char* function, const GroupFacts& group, const Tensors& list,
                  const c10d::AllreduceOptions& options, Request& request) {
  OperationSpec& spec = request.add(group, Collective::kAllreduce, options.timeout, list[0]);
  SetReduction(function, options.reduceOp, spec);
  const bool single = list.size() == 1;
  const at::Tensor target = single ? list[0] : ReducedList(function, spec, list);
  spec.input = spec.output =
      EvenBuffer(target, group.ranks(), Access::kReadWrite, *request.staging);
  if (single) return;
  for (const at::Tensor& tensor : list) request.staging->store_later(tensor, target);
}

// The first tensor of a collective with a root.
const at::Tensor& RootTensor(const char* function, const GroupFacts& group, const Tensors& tensors,
                             int64_t root, int64_t root_tensor) {
  CheckRoot(function, root, group.size);
  if (root_tensor < 0 || root_tensor >= static_cast<int64_t>(tensors.size())) {
    Refuse(function, "invalid root tensor: " + std::to_string(root_tensor));
  }
  return tensors[static_cast<size_t>(root_tensor)];
}

// What is broadcast for a list, whose other tensors obtain the same.
at::Tensor BroadcastTarget(const Tensors& tensors, size_t root_tensor, bool is_root,
                           Staging& staging) {
  if (tensors.size() == 1) return tensors[0];
  TensorLists copies{{tensors[root_tensor]}};
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (i != root_tensor) copies.push_back({tensors[i]});
  }
  return Targets(copies, is_root ? Access::kReadWrite : Access::kWrite, staging)[0];
}

// Without `peer`: from any rank.
Request MessageRequest(const char* function, OpType type, const char* title,
                       const GroupFacts& group, const Tensors& tensors, std::optional<int> peer,
                       int tag) {
  if (tensors.size() != 1) Refuse(function, "takes a single tensor");
  const at::Tensor& tensor = Single(function, "", tensors);
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
  if (static_cast<uint32_t>(tag) >= kFirstOwnTag) {
    Refuse(function, "invalid tag: " + std::to_string(tag) + ". Tags from " +
                         std::to_string(kFirstOwnTag) +
                         " on belong to monitored_barrier and sparse all_reduce");
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
  spec.only_preferred = true;  // one option serves groups and calls of all kinds
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
  CheckAlike(kFunction, tensors);
  CheckTensor(kFunction, tensors[0]);
  Request request(OpType::ALLREDUCE, "rocecoll:all_reduce", tensors, tensors, options);
  AddAllReduce(kFunction, group, tensors, options, request);
  return request;
}

Request AllReduceCoalescedRequest(const GroupFacts& group, const Tensors& tensors,
                                  const c10d::AllreduceOptions& options) {
  constexpr const char* kFunction = "allreduce_coalesced";
  CheckLayouts(kFunction, tensors);
  for (const at::Tensor& tensor : tensors) {
    CheckTensor(kFunction, tensor);
    if (tensor.scalar_type() != tensors[0].scalar_type()) {
      Refuse(kFunction, "tensors must all have the same type");
    }
  }
  Request request(OpType::ALLREDUCE_COALESCED, "rocecoll:all_reduce_coalesced", tensors, tensors,
                  options);
  request.specs.reserve(tensors.size());
  for (const at::Tensor& target : Targets({tensors}, Access::kReadWrite, *request.staging)) {
    AddAllReduce(kFunction, group, {target}, options, request);
  }
  return request;
}

Request SparseAllReduceRequest(const GroupFacts& group, const Tensors& tensors,
                               const c10d::AllreduceOptions& options) {
  constexpr const char* kFunction = "allreduce";
  CheckAlike(kFunction, tensors);
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
  Request request(OpType::ALLREDUCE, "rocecoll:sparse_all_reduce", tensors, tensors, options);
  request.add(group, Collective::kAllreduce, options.timeout, tensor);
  return request;
}

Request BroadcastRequest(const GroupFacts& group, const Tensors& tensors,
                         const c10d::BroadcastOptions& options) {
  constexpr const char* kFunction = "broadcast";
  const at::Tensor& tensor =
      RootTensor(kFunction, group, tensors, options.rootRank, options.rootTensor);
  CheckAlike(kFunction, tensors);
  CheckTensor(kFunction, tensor);
  Request request(OpType::BROADCAST, "rocecoll:broadcast", tensors, tensors, options);
  OperationSpec& spec = request.add(group, Collective::kBroadcast, options.timeout, tensor);
  spec.root = static_cast<Rank>(options.rootRank);
  const bool is_root = options.rootRank == group.rank;
  const at::Tensor target =
      BroadcastTarget(tensors, static_cast<size_t>(options.rootTensor), is_root, *request.staging);
  spec.output =
      EvenBuffer(target, group.ranks(), is_root ? Access::kRead : Access::kWrite, *request.staging);
  return request;
}

Request ReduceRequest(const GroupFacts& group, const Tensors& tensors,
                      const c10d::ReduceOptions& options) {
  constexpr const char* kFunction = "reduce";
  RootTensor(kFunction, group, tensors, options.rootRank, options.rootTensor);
  const at::Tensor& tensor = Single(kFunction, "", tensors);
  Request request(OpType::REDUCE, "rocecoll:reduce", tensors, tensors, options);
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
  Request request(OpType::BARRIER, "rocecoll:barrier", {}, {}, options);
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
