// SPDX-License-Identifier: Apache-2.0
// Requests of collectives whose ranks contribute or obtain different blocks.
#include <string>

#include "torch/backend/arguments.h"
#include "torch/backend/requests.h"

namespace rocecoll::torch_adapter {

using c10d::OpType;

namespace {

// The input as block `rank` of the output itself is how callers avoid a copy; the engine knows.
bool IsInPlace(const at::Tensor& input, const at::Tensor& block) {
  return input.is_contiguous() && block.is_contiguous() &&
         input.const_data_ptr() == block.const_data_ptr();
}

Tensors Flatten(const TensorLists& lists) {
  Tensors flat;
  for (const auto& list : lists) flat.insert(flat.end(), list.begin(), list.end());
  return flat;
}

void CheckPairs(const char* function, size_t outputs, size_t inputs) {
  if (inputs == 0) Refuse(function, "requires non-empty input tensor list");
  if (outputs != inputs) {
    Refuse(function, "requires input/output tensor lists to have the same length");
  }
}

// `whole` has a block of the size of `part` for each rank.
void CheckWhole(const char* function, const GroupFacts& group, const char* whole_name,
                const at::Tensor& whole, const char* part_name, const at::Tensor& part) {
  if (whole.numel() == part.numel() * group.size) return;
  Refuse(function, std::string("invalid tensor size: ") + whole_name + " has " +
                       std::to_string(whole.numel()) + " elements, must be world_size (" +
                       std::to_string(group.size) + ") times the " + part_name + "'s " +
                       std::to_string(part.numel()));
}

// An all_gather into one tensor a rank.
void AddGatherList(const char* function, const GroupFacts& group, const Tensors& outputs,
                   const at::Tensor& input, const c10d::AllgatherOptions& options,
                   Request& request) {
  CheckTensor(function, input, input.scalar_type());
  if (outputs.size() != static_cast<size_t>(group.size)) {
    Refuse(function, "invalid output tensor list at index 0 (expected length " +
                         std::to_string(group.size) + ", got " + std::to_string(outputs.size()) +
                         ")");
  }
  CheckTensors(function, outputs, input.scalar_type());
  CheckSizes(function, outputs, input);
  OperationSpec& spec = request.add(group, Collective::kAllgather, options.timeout, input);
  const Tensors source =
      IsInPlace(input, outputs[group.rank]) ? Tensors{input} : Unaliased({input}, outputs);
  spec.input = EvenBuffer(source[0], 1, Access::kRead, *request.staging);
  spec.output = ListBuffer(outputs, Access::kWrite, *request.staging);
}

// An all_gather into one tensor.
void AddGatherInto(const char* function, const GroupFacts& group, const at::Tensor& output,
                   const at::Tensor& input, const c10d::AllgatherOptions& options,
                   Request& request) {
  CheckTensor(function, input, input.scalar_type());
  CheckTensor(function, output, input.scalar_type());
  CheckWhole(function, group, "output", output, "input", input);
  OperationSpec& spec = request.add(group, Collective::kAllgather, options.timeout, input);
  const bool in_place =
      output.is_contiguous() &&
      IsInPlace(input, output.view(-1).narrow(0, group.rank * input.numel(), input.numel()));
  const Tensors source = in_place ? Tensors{input} : Unaliased({input}, {output});
  spec.input = EvenBuffer(source[0], 1, Access::kRead, *request.staging);
  spec.output = EvenBuffer(output, group.ranks(), Access::kWrite, *request.staging);
}

// A reduce_scatter of one tensor.
void AddScatterFrom(const char* function, const GroupFacts& group, const at::Tensor& output,
                    const at::Tensor& input, const c10d::ReduceScatterOptions& options,
                    Request& request) {
  CheckTensor(function, output, output.scalar_type());
  CheckTensor(function, input, output.scalar_type());
  CheckWhole(function, group, "input", input, "output", output);
  OperationSpec& spec = request.add(group, Collective::kReduceScatter, options.timeout, output);
  SetReduction(function, options.reduceOp, spec);
  spec.input =
      EvenBuffer(Unaliased({input}, {output})[0], group.ranks(), Access::kRead, *request.staging);
  spec.output = EvenBuffer(output, 1, Access::kWrite, *request.staging);
}

}  // namespace

Request AllGatherRequest(const GroupFacts& group, const TensorLists& outputs, const Tensors& inputs,
                         const c10d::AllgatherOptions& options) {
  constexpr const char* kFunction = "allgather";
  CheckPairs(kFunction, outputs.size(), inputs.size());
  const at::Tensor& input = Single(kFunction, inputs);
  Request request(OpType::ALLGATHER, "rocecoll:all_gather", inputs, outputs[0], options.asyncOp);
  AddGatherList(kFunction, group, outputs[0], input, options, request);
  return request;
}

Request AllGatherCoalescedRequest(const GroupFacts& group, const TensorLists& outputs,
                                  const Tensors& inputs, const c10d::AllgatherOptions& options) {
  constexpr const char* kFunction = "allgather_coalesced";
  if (inputs.empty()) Refuse(kFunction, "requires non-empty input tensor list");
  if (outputs.size() != static_cast<size_t>(group.size)) {
    Refuse(kFunction, "output lists should be equal to world size");
  }
  for (const Tensors& list : outputs) {
    if (list.size() != inputs.size()) {
      Refuse(kFunction, "invalid output size: (expected length " + std::to_string(inputs.size()) +
                            ", got " + std::to_string(list.size()) + ")");
    }
  }
  Request request(OpType::ALLGATHER_COALESCED, "rocecoll:all_gather", inputs, Flatten(outputs),
                  options.asyncOp);
  for (size_t i = 0; i < inputs.size(); ++i) {
    Tensors column;
    for (const Tensors& list : outputs) column.push_back(list[i]);
    AddGatherList(kFunction, group, column, inputs[i], options, request);
  }
  return request;
}

Request AllGatherIntoRequest(const GroupFacts& group, const at::Tensor& output,
                             const at::Tensor& input, const c10d::AllgatherOptions& options) {
  Request request(OpType::_ALLGATHER_BASE, "rocecoll:_all_gather_base", {input}, {output},
                  options.asyncOp);
  AddGatherInto("_allgather_base", group, output, input, options, request);
  return request;
}

Request AllGatherIntoCoalescedRequest(const GroupFacts& group, const Tensors& outputs,
                                      const Tensors& inputs,
                                      const c10d::AllgatherOptions& options) {
  constexpr const char* kFunction = "allgather_into_tensor_coalesced";
  CheckPairs(kFunction, outputs.size(), inputs.size());
  Request request(OpType::COALESCED, "rocecoll:all_gather_into_tensor_coalesced", inputs, outputs,
                  options.asyncOp);
  for (size_t i = 0; i < inputs.size(); ++i) {
    AddGatherInto(kFunction, group, outputs[i], inputs[i], options, request);
  }
  return request;
}

Request ReduceScatterRequest(const GroupFacts& group, const Tensors& outputs,
                             const TensorLists& inputs, const c10d::ReduceScatterOptions& options) {
  constexpr const char* kFunction = "reduce_scatter";
  const at::Tensor& output = Single(kFunction, outputs);
  const Tensors& list = SingleList(kFunction, "input", inputs, group.size, output.scalar_type());
  const at::Tensor& own = list[group.rank];
  if (own.numel() != output.numel()) {
    Refuse(kFunction, "invalid tensor size: output has " + std::to_string(output.numel()) +
                          " elements, this rank's input " + std::to_string(own.numel()));
  }
  Request request(OpType::REDUCE_SCATTER, "rocecoll:reduce_scatter", list, outputs,
                  options.asyncOp);
  OperationSpec& spec = request.add(group, Collective::kReduceScatter, options.timeout, output);
  SetReduction(kFunction, options.reduceOp, spec);
  spec.input = ListBuffer(Unaliased(list, outputs), Access::kRead, *request.staging);
  spec.output = EvenBuffer(output, 1, Access::kWrite, *request.staging);
  return request;
}

Request ReduceScatterFromRequest(const GroupFacts& group, const at::Tensor& output,
                                 const at::Tensor& input,
                                 const c10d::ReduceScatterOptions& options) {
  Request request(OpType::_REDUCE_SCATTER_BASE, "rocecoll:_reduce_scatter_base", {input}, {output},
                  options.asyncOp);
  AddScatterFrom("_reduce_scatter_base", group, output, input, options, request);
  return request;
}

Request ReduceScatterFromCoalescedRequest(const GroupFacts& group, const Tensors& outputs,
                                          const Tensors& inputs,
                                          const c10d::ReduceScatterOptions& options) {
  constexpr const char* kFunction = "reduce_scatter_tensor_coalesced";
  CheckPairs(kFunction, outputs.size(), inputs.size());
  Request request(OpType::REDUCE_SCATTER_TENSOR_COALESCED,
                  "rocecoll:reduce_scatter_tensor_coalesced", inputs, outputs, options.asyncOp);
  for (size_t i = 0; i < inputs.size(); ++i) {
    AddScatterFrom(kFunction, group, outputs[i], inputs[i], options, request);
  }
  return request;
}

Request GatherRequest(const GroupFacts& group, const TensorLists& outputs, const Tensors& inputs,
                      const c10d::GatherOptions& options) {
  constexpr const char* kFunction = "gather";
  CheckRoot(kFunction, options.rootRank, group.size);
  const at::Tensor& input = Single(kFunction, inputs);
  Request request(OpType::GATHER, "rocecoll:gather", inputs, {}, options.asyncOp);
  OperationSpec& spec = request.add(group, Collective::kGather, options.timeout, input);
  spec.root = static_cast<Rank>(options.rootRank);
  Tensors source = inputs;
  if (options.rootRank == group.rank) {
    Tensors& results = request.call.results;
    results = SingleList(kFunction, "output", outputs, group.size, input.scalar_type());
    CheckSizes(kFunction, results, input);
    if (!IsInPlace(input, results[group.rank])) source = Unaliased(inputs, results);
    spec.output = ListBuffer(results, Access::kWrite, *request.staging);
  } else if (!outputs.empty()) {
    Refuse(kFunction, "requires empty output on non-root");
  }
  spec.input = EvenBuffer(source[0], 1, Access::kRead, *request.staging);
  return request;
}

Request ScatterRequest(const GroupFacts& group, const Tensors& outputs, const TensorLists& inputs,
                       const c10d::ScatterOptions& options) {
  constexpr const char* kFunction = "scatter";
  CheckRoot(kFunction, options.rootRank, group.size);
  const at::Tensor& output = Single(kFunction, outputs);
  Request request(OpType::SCATTER, "rocecoll:scatter", {}, outputs, options.asyncOp);
  OperationSpec& spec = request.add(group, Collective::kScatter, options.timeout, output);
  spec.root = static_cast<Rank>(options.rootRank);
  if (options.rootRank == group.rank) {
    Tensors& source = request.call.inputs;
    source = SingleList(kFunction, "input", inputs, group.size, output.scalar_type());
    CheckSizes(kFunction, source, output);
    if (!IsInPlace(output, source[group.rank])) source = Unaliased(source, outputs);
    spec.input = ListBuffer(source, Access::kRead, *request.staging);
  } else if (!inputs.empty()) {
    Refuse(kFunction, "requires empty input on non-root");
  }
  spec.output = EvenBuffer(output, 1, Access::kWrite, *request.staging);
  return request;
}

Request AllToAllRequest(const GroupFacts& group, const Tensors& outputs, const Tensors& inputs,
                        const c10d::AllToAllOptions& options) {
  constexpr const char* kFunction = "alltoall";
  if (inputs.size() != static_cast<size_t>(group.size) || outputs.size() != inputs.size()) {
    Refuse(kFunction, "invalid input tensor list size, must be world size");
  }
  CheckTensors(kFunction, inputs, inputs[0].scalar_type());
  CheckTensors(kFunction, outputs, inputs[0].scalar_type());
  Request request(OpType::ALLTOALL, "rocecoll:all_to_all", inputs, outputs, options.asyncOp);
  OperationSpec& spec = request.add(group, Collective::kAlltoall, options.timeout, inputs[0]);
  spec.uniform = false;  // a rank sees only the sizes of its own tensors
  spec.input = ListBuffer(Unaliased(inputs, outputs), Access::kRead, *request.staging);
  spec.output = ListBuffer(outputs, Access::kWrite, *request.staging);
  return request;
}

Request AllToAllSplitRequest(const GroupFacts& group, const at::Tensor& output,
                             const at::Tensor& input, const std::vector<int64_t>& output_splits,
                             const std::vector<int64_t>& input_splits,
                             const c10d::AllToAllOptions& options) {
  constexpr const char* kFunction = "alltoall_base";
  CheckTensor(kFunction, input, input.scalar_type());
  CheckTensor(kFunction, output, input.scalar_type());
  const auto to = CheckSplits(kFunction, "input", input, input_splits, group.size);
  const auto from = CheckSplits(kFunction, "output", output, output_splits, group.size);
  Request request(OpType::ALLTOALL_BASE, "rocecoll:all_to_all", {input}, {output}, options.asyncOp);
  OperationSpec& spec = request.add(group, Collective::kAlltoall, options.timeout, input);
  // Whoever names splits expects the other ranks to do so, too.
  spec.uniform = input_splits.empty() && output_splits.empty();
  spec.input = SplitBuffer(Unaliased({input}, {output})[0], to, Access::kRead, *request.staging);
  spec.output = SplitBuffer(output, from, Access::kWrite, *request.staging);
  return request;
}

}  // namespace rocecoll::torch_adapter
