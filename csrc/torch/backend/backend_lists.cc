// SPDX-License-Identifier: Apache-2.0
// The backend's collectives whose ranks contribute or obtain different blocks.
#include <numeric>
#include <utility>

#include "torch/backend/arguments.h"
#include "torch/backend/backend.h"

namespace rocecoll::torch_adapter {

using c10d::OpType;

namespace {

// The input as block `rank` of the output itself is how callers avoid a copy; the engine knows.
bool IsInPlace(const at::Tensor& input, const at::Tensor& block) {
  return input.is_contiguous() && block.is_contiguous() &&
         input.const_data_ptr() == block.const_data_ptr();
}

Backend::Tensors Flatten(const Backend::TensorLists& lists) {
  Backend::Tensors flat;
  for (const auto& list : lists) flat.insert(flat.end(), list.begin(), list.end());
  return flat;
}

void CheckPairs(const char* function, size_t outputs, size_t inputs) {
  if (inputs == 0) Refuse(function, "requires non-empty input tensor list");
  if (outputs != inputs) {
    Refuse(function, "requires input/output tensor lists to have the same length");
  }
}

}  // namespace

OperationSpec Backend::gather_list(const char* function, const Tensors& outputs,
                                   const at::Tensor& input, const c10d::AllgatherOptions& options,
                                   Staging& staging) const {
  CheckTensor(function, input, input.scalar_type());
  if (outputs.size() != static_cast<size_t>(size_)) {
    Refuse(function, "invalid output tensor list at index 0 (expected length " +
                         std::to_string(size_) + ", got " + std::to_string(outputs.size()) + ")");
  }
  CheckTensors(function, outputs, input.scalar_type());
  CheckSizes(function, outputs, input);
  OperationSpec spec = make_spec(Collective::kAllgather, options.timeout);
  spec.type = ToDataType(input.scalar_type());
  const Tensors source =
      IsInPlace(input, outputs[rank_]) ? Tensors{input} : Unaliased({input}, outputs);
  spec.input = EvenBuffer(source[0], 1, Access::kRead, staging);
  spec.output = ListBuffer(outputs, Access::kWrite, staging);
  return spec;
}

OperationSpec Backend::gather_into(const char* function, at::Tensor& output, at::Tensor& input,
                                   const c10d::AllgatherOptions& options, Staging& staging) const {
  CheckTensor(function, input, input.scalar_type());
  CheckTensor(function, output, input.scalar_type());
  if (output.numel() != input.numel() * size_) {
    Refuse(function, "invalid tensor size: output has " + std::to_string(output.numel()) +
                         " elements, must be world_size (" + std::to_string(size_) +
                         ") times the input's " + std::to_string(input.numel()));
  }
  OperationSpec spec = make_spec(Collective::kAllgather, options.timeout);
  spec.type = ToDataType(input.scalar_type());
  const bool in_place =
      output.is_contiguous() &&
      IsInPlace(input, output.view(-1).narrow(0, rank_ * input.numel(), input.numel()));
  const Tensors source = in_place ? Tensors{input} : Unaliased({input}, {output});
  spec.input = EvenBuffer(source[0], 1, Access::kRead, staging);
  spec.output = EvenBuffer(output, ranks(), Access::kWrite, staging);
  return spec;
}

Backend::WorkPtr Backend::allgather(TensorLists& outputs, Tensors& inputs,
                                    const c10d::AllgatherOptions& options) {
  constexpr const char* kFunction = "allgather";
  CheckPairs(kFunction, outputs.size(), inputs.size());
  const at::Tensor& input = Single(kFunction, inputs);
  auto staging = std::make_shared<Staging>();
  OperationSpec spec = gather_list(kFunction, outputs[0], input, options, *staging);
  return launch({.type = OpType::ALLGATHER,
                 .title = "rocecoll:all_gather",
                 .inputs = inputs,
                 .results = outputs[0],
                 .asynchronous = options.asyncOp},
                {std::move(spec)}, staging);
}

// outputs[r][i] receives rank r's inputs[i].
Backend::WorkPtr Backend::allgather_coalesced(TensorLists& outputs, Tensors& inputs,
                                              const c10d::AllgatherOptions& options) {
  constexpr const char* kFunction = "allgather_coalesced";
  if (inputs.empty()) Refuse(kFunction, "requires non-empty input tensor list");
  if (outputs.size() != static_cast<size_t>(size_)) {
    Refuse(kFunction, "output lists should be equal to world size");
  }
  for (const Tensors& list : outputs) {
    if (list.size() != inputs.size()) {
      Refuse(kFunction, "invalid output size: (expected length " + std::to_string(inputs.size()) +
                            ", got " + std::to_string(list.size()) + ")");
    }
  }
  auto staging = std::make_shared<Staging>();
  std::vector<OperationSpec> specs;
  for (size_t i = 0; i < inputs.size(); ++i) {
    Tensors column;
    for (const Tensors& list : outputs) column.push_back(list[i]);
    specs.push_back(gather_list(kFunction, column, inputs[i], options, *staging));
  }
  return launch({.type = OpType::ALLGATHER_COALESCED,
                 .title = "rocecoll:all_gather",
                 .inputs = inputs,
                 .results = Flatten(outputs),
                 .asynchronous = options.asyncOp},
                std::move(specs), staging);
}

Backend::WorkPtr Backend::_allgather_base(at::Tensor& output, at::Tensor& input,
                                          const c10d::AllgatherOptions& options) {
  auto staging = std::make_shared<Staging>();
  OperationSpec spec = gather_into("_allgather_base", output, input, options, *staging);
  return launch({.type = OpType::_ALLGATHER_BASE,
                 .title = "rocecoll:_all_gather_base",
                 .inputs = {input},
                 .results = {output},
                 .asynchronous = options.asyncOp},
                {std::move(spec)}, staging);
}

Backend::WorkPtr Backend::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                          const c10d::AllgatherOptions& options) {
  constexpr const char* kFunction = "allgather_into_tensor_coalesced";
  CheckPairs(kFunction, outputs.size(), inputs.size());
  auto staging = std::make_shared<Staging>();
  std::vector<OperationSpec> specs;
  for (size_t i = 0; i < inputs.size(); ++i) {
    specs.push_back(gather_into(kFunction, outputs[i], inputs[i], options, *staging));
  }
  return launch({.type = OpType::COALESCED,
                 .title = "rocecoll:all_gather_into_tensor_coalesced",
                 .inputs = inputs,
                 .results = outputs,
                 .asynchronous = options.asyncOp},
                std::move(specs), staging);
}

OperationSpec Backend::scatter_from(const char* function, at::Tensor& output, at::Tensor& input,
                                    const c10d::ReduceScatterOptions& options,
                                    Staging& staging) const {
  CheckTensor(function, output, output.scalar_type());
  CheckTensor(function, input, output.scalar_type());
  if (input.numel() != output.numel() * size_) {
    Refuse(function, "invalid tensor size: input has " + std::to_string(input.numel()) +
                         " elements, must be world_size (" + std::to_string(size_) +
                         ") times the output's " + std::to_string(output.numel()));
  }
  OperationSpec spec = make_spec(Collective::kReduceScatter, options.timeout);
  spec.type = ToDataType(output.scalar_type());
  SetReduction(function, options.reduceOp, spec);
  spec.input = EvenBuffer(Unaliased({input}, {output})[0], ranks(), Access::kRead, staging);
  spec.output = EvenBuffer(output, 1, Access::kWrite, staging);
  return spec;
}

Backend::WorkPtr Backend::reduce_scatter(Tensors& outputs, TensorLists& inputs,
                                         const c10d::ReduceScatterOptions& options) {
  constexpr const char* kFunction = "reduce_scatter";
  const at::Tensor& output = Single(kFunction, outputs);
  const Tensors& list = SingleList(kFunction, "input", inputs, size_, output.scalar_type());
  if (list[rank_].numel() != output.numel()) {
    Refuse(kFunction, "invalid tensor size: output has " + std::to_string(output.numel()) +
                          " elements, this rank's input " + std::to_string(list[rank_].numel()));
  }
  auto staging = std::make_shared<Staging>();
  OperationSpec spec = make_spec(Collective::kReduceScatter, options.timeout);
  spec.type = ToDataType(output.scalar_type());
  SetReduction(kFunction, options.reduceOp, spec);
  spec.input = ListBuffer(Unaliased(list, outputs), Access::kRead, *staging);
  spec.output = EvenBuffer(output, 1, Access::kWrite, *staging);
  return launch({.type = OpType::REDUCE_SCATTER,
                 .title = "rocecoll:reduce_scatter",
                 .inputs = list,
                 .results = outputs,
                 .asynchronous = options.asyncOp},
                {std::move(spec)}, staging);
}

Backend::WorkPtr Backend::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                               const c10d::ReduceScatterOptions& options) {
  auto staging = std::make_shared<Staging>();
  OperationSpec spec = scatter_from("_reduce_scatter_base", output, input, options, *staging);
  return launch({.type = OpType::_REDUCE_SCATTER_BASE,
                 .title = "rocecoll:_reduce_scatter_base",
                 .inputs = {input},
                 .results = {output},
                 .asynchronous = options.asyncOp},
                {std::move(spec)}, staging);
}

Backend::WorkPtr Backend::reduce_scatter_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::ReduceScatterOptions& options) {
  constexpr const char* kFunction = "reduce_scatter_tensor_coalesced";
  CheckPairs(kFunction, outputs.size(), inputs.size());
  auto staging = std::make_shared<Staging>();
  std::vector<OperationSpec> specs;
  for (size_t i = 0; i < inputs.size(); ++i) {
    specs.push_back(scatter_from(kFunction, outputs[i], inputs[i], options, *staging));
  }
  return launch({.type = OpType::REDUCE_SCATTER_TENSOR_COALESCED,
                 .title = "rocecoll:reduce_scatter_tensor_coalesced",
                 .inputs = inputs,
                 .results = outputs,
                 .asynchronous = options.asyncOp},
                std::move(specs), staging);
}

Backend::WorkPtr Backend::gather(TensorLists& outputs, Tensors& inputs,
                                 const c10d::GatherOptions& options) {
  constexpr const char* kFunction = "gather";
  CheckRoot(kFunction, options.rootRank, size_);
  const at::Tensor& input = Single(kFunction, inputs);
  auto staging = std::make_shared<Staging>();
  OperationSpec spec = make_spec(Collective::kGather, options.timeout);
  spec.type = ToDataType(input.scalar_type());
  spec.root = static_cast<Rank>(options.rootRank);
  Tensors source = inputs;
  Tensors results;
  if (options.rootRank == rank_) {
    results = SingleList(kFunction, "output", outputs, size_, input.scalar_type());
    CheckSizes(kFunction, results, input);
    if (!IsInPlace(input, results[rank_])) source = Unaliased(inputs, results);
    spec.output = ListBuffer(results, Access::kWrite, *staging);
  } else if (!outputs.empty()) {
    Refuse(kFunction, "requires empty output on non-root");
  }
  spec.input = EvenBuffer(source[0], 1, Access::kRead, *staging);
  return launch({.type = OpType::GATHER,
                 .title = "rocecoll:gather",
                 .inputs = inputs,
                 .results = std::move(results),
                 .asynchronous = options.asyncOp},
                {std::move(spec)}, staging);
}

Backend::WorkPtr Backend::scatter(Tensors& outputs, TensorLists& inputs,
                                  const c10d::ScatterOptions& options) {
  constexpr const char* kFunction = "scatter";
  CheckRoot(kFunction, options.rootRank, size_);
  const at::Tensor& output = Single(kFunction, outputs);
  auto staging = std::make_shared<Staging>();
  OperationSpec spec = make_spec(Collective::kScatter, options.timeout);
  spec.type = ToDataType(output.scalar_type());
  spec.root = static_cast<Rank>(options.rootRank);
  Tensors source;
  if (options.rootRank == rank_) {
    source = SingleList(kFunction, "input", inputs, size_, output.scalar_type());
    CheckSizes(kFunction, source, output);
    if (!IsInPlace(output, source[rank_])) source = Unaliased(source, outputs);
    spec.input = ListBuffer(source, Access::kRead, *staging);
  } else if (!inputs.empty()) {
    Refuse(kFunction, "requires empty input on non-root");
  }
  spec.output = EvenBuffer(output, 1, Access::kWrite, *staging);
  return launch({.type = OpType::SCATTER,
                 .title = "rocecoll:scatter",
                 .inputs = std::move(source),
                 .results = outputs,
                 .asynchronous = options.asyncOp},
                {std::move(spec)}, staging);
}

Backend::WorkPtr Backend::alltoall(Tensors& outputs, Tensors& inputs,
                                   const c10d::AllToAllOptions& options) {
  constexpr const char* kFunction = "alltoall";
  if (inputs.size() != static_cast<size_t>(size_) || outputs.size() != inputs.size()) {
    Refuse(kFunction, "invalid input tensor list size, must be world size");
  }
  CheckTensors(kFunction, inputs, inputs[0].scalar_type());
  CheckTensors(kFunction, outputs, inputs[0].scalar_type());
  auto staging = std::make_shared<Staging>();
  OperationSpec spec = make_spec(Collective::kAlltoall, options.timeout);
  spec.type = ToDataType(inputs[0].scalar_type());
  spec.uniform = false;  // a rank sees only the sizes of its own tensors
  spec.input = ListBuffer(Unaliased(inputs, outputs), Access::kRead, *staging);
  spec.output = ListBuffer(outputs, Access::kWrite, *staging);
  return launch({.type = OpType::ALLTOALL,
                 .title = "rocecoll:all_to_all",
                 .inputs = inputs,
                 .results = outputs,
                 .asynchronous = options.asyncOp},
                {std::move(spec)}, staging);
}

Backend::WorkPtr Backend::alltoall_base(at::Tensor& output, at::Tensor& input,
                                        std::vector<int64_t>& output_splits,
                                        std::vector<int64_t>& input_splits,
                                        const c10d::AllToAllOptions& options) {
  constexpr const char* kFunction = "alltoall_base";
  CheckTensor(kFunction, input, input.scalar_type());
  CheckTensor(kFunction, output, input.scalar_type());
  const auto to = CheckSplits(kFunction, "input", input, input_splits, size_);
  const auto from = CheckSplits(kFunction, "output", output, output_splits, size_);
  auto staging = std::make_shared<Staging>();
  OperationSpec spec = make_spec(Collective::kAlltoall, options.timeout);
  spec.type = ToDataType(input.scalar_type());
  // Whoever names splits expects the other ranks to do so, too.
  spec.uniform = input_splits.empty() && output_splits.empty();
  spec.input = SplitBuffer(Unaliased({input}, {output})[0], to, Access::kRead, *staging);
  spec.output = SplitBuffer(output, from, Access::kWrite, *staging);
  return launch({.type = OpType::ALLTOALL_BASE,
                 .title = "rocecoll:all_to_all",
                 .inputs = {input},
                 .results = {output},
                 .asynchronous = options.asyncOp},
                {std::move(spec)}, staging);
}

}  // namespace rocecoll::torch_adapter
