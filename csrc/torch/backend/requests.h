// SPDX-License-Identifier: Apache-2.0
// What the calls of c10d ask of the engine: arguments checked, tensors laid out, nothing sent yet.
// A call that is refused throws, in the words of torch's own backends (arguments.h).
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <utility>
#include <vector>

#include "engine/operations/operation.h"
#include "runtime/option_value.h"
#include "torch/interface/c10d_interface.h"
#include "torch/tensors/tensor_layout.h"
#include "torch/work/work.h"

namespace rocecoll::torch_adapter {

using Tensors = std::vector<at::Tensor>;
using TensorLists = std::vector<Tensors>;

// What requests depend on of the group that they are for.
struct GroupFacts {
  int rank;
  int size;
  AlgorithmTable algorithms;

  uint32_t ranks() const { return static_cast<uint32_t>(size); }
  // An operation of `collective` with the caller's timeout (unset: the group's) and the chosen
  // algorithm.
  OperationSpec spec(Collective collective, std::chrono::milliseconds timeout) const;
};

struct Request {
  Request(c10d::OpType type, const char* title, Tensors inputs, Tensors results, bool asynchronous)
      : call{.type = type,
             .title = title,
             .inputs = std::move(inputs),
             .results = std::move(results),
             .asynchronous = asynchronous} {}
  // With the `options` of c10d that the call came with.
  template <typename CallOptions>
  Request(c10d::OpType type, const char* title, Tensors inputs, Tensors results,
          const CallOptions& options)
      : Request(type, title, std::move(inputs), std::move(results), IsAsynchronous(options)) {}

  // Adds a GroupFacts::spec() for elements of that tensor's type.
  OperationSpec& add(const GroupFacts& group, Collective collective,
                     std::chrono::milliseconds timeout, const at::Tensor& tensor);

  Work::Call call;
  std::vector<OperationSpec> specs;  // at least one
  std::shared_ptr<Staging> staging = std::make_shared<Staging>();
};

// All ranks have the same tensors.
Request AllReduceRequest(const GroupFacts& group, const Tensors& tensors,
                         const c10d::AllreduceOptions& options);
// Its operation describes the call only: what is sent depends on what the ranks have.
Request SparseAllReduceRequest(const GroupFacts& group, const Tensors& tensors,
                               const c10d::AllreduceOptions& options);
Request AllReduceCoalescedRequest(const GroupFacts& group, const Tensors& tensors,
                                  const c10d::AllreduceOptions& options);
Request BroadcastRequest(const GroupFacts& group, const Tensors& tensors,
                         const c10d::BroadcastOptions& options);
Request ReduceRequest(const GroupFacts& group, const Tensors& tensors,
                      const c10d::ReduceOptions& options);
Request BarrierRequest(const GroupFacts& group, const c10d::BarrierOptions& options);

// Messages between two ranks.
Request SendRequest(const GroupFacts& group, const Tensors& tensors, int to, int tag);
// Without `from`: from any rank.
Request RecvRequest(const GroupFacts& group, const Tensors& tensors, std::optional<int> from,
                    int tag);

// Ranks contribute or obtain different blocks. Those of this one may have other sizes on each rank.
Request AllGatherRequest(const GroupFacts& group, const TensorLists& outputs, const Tensors& inputs,
                         const c10d::AllgatherOptions& options);
// outputs[r][i] receives rank r's inputs[i].
Request AllGatherCoalescedRequest(const GroupFacts& group, const TensorLists& outputs,
                                  const Tensors& inputs, const c10d::AllgatherOptions& options);
Request AllGatherIntoRequest(const GroupFacts& group, const at::Tensor& output,
                             const at::Tensor& input, const c10d::AllgatherOptions& options);
Request AllGatherIntoCoalescedRequest(const GroupFacts& group, const Tensors& outputs,
                                      const Tensors& inputs, const c10d::AllgatherOptions& options);
Request ReduceScatterRequest(const GroupFacts& group, const Tensors& outputs,
                             const TensorLists& inputs, const c10d::ReduceScatterOptions& options);
Request ReduceScatterFromRequest(const GroupFacts& group, const at::Tensor& output,
                                 const at::Tensor& input,
                                 const c10d::ReduceScatterOptions& options);
Request ReduceScatterFromCoalescedRequest(const GroupFacts& group, const Tensors& outputs,
                                          const Tensors& inputs,
                                          const c10d::ReduceScatterOptions& options);
Request GatherRequest(const GroupFacts& group, const TensorLists& outputs, const Tensors& inputs,
                      const c10d::GatherOptions& options);
// The blocks lie one behind the other in the root's `output`, which others leave undefined.
Request GatherIntoRequest(const GroupFacts& group, const at::Tensor& output,
                          const at::Tensor& input, const c10d::GatherOptions& options);
Request ScatterRequest(const GroupFacts& group, const Tensors& outputs, const TensorLists& inputs,
                       const c10d::ScatterOptions& options);
Request AllToAllRequest(const GroupFacts& group, const Tensors& outputs, const Tensors& inputs,
                        const c10d::AllToAllOptions& options);
Request AllToAllSplitRequest(const GroupFacts& group, const at::Tensor& output,
                             const at::Tensor& input, const std::vector<int64_t>& output_splits,
                             const std::vector<int64_t>& input_splits,
                             const c10d::AllToAllOptions& options);

}  // namespace rocecoll::torch_adapter
