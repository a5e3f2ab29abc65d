// SPDX-License-Identifier: Apache-2.0
// Requests of collectives whose ranks contribute or obtain different blocks.
#include <string>

#include "torch/backend/arguments.h"
#include "torch/backend/requests.h"
#include "torch/interface/c10d_interface.h"

namespace rocecoll::torch_adapter {

using c10d::OpType;

namespace {

// The input as block `rank` of the output itself is how callers avoid a copy; the engine knows.
bool IsInPlace(const at::Tensor& input, const at::Tensor& block) {
  return input.is_contiguous() && block.is_contiguous() &&
         input.const_data_ptr() == block.const_data_ptr();
}

void CheckPairs(const char* function, size_t outputs, size_t inputs) {
  if (inputs == 0) Refuse(function, "requires non-empty input tensor list");
  if (outputs != inputs) {
    Refuse(function, "requires input/output tensor lists to have the same length");
  }
}

// A tensor for each input, of the same type and sizes.
void CheckPairedList(const char* function, const Tensors& list, const Tensors& inputs) {
  if (list.size() != inputs.size()) {
    Refuse(function, c10::str("invalid output size: (expected length ", inputs.size(), ", got ",
                              list.size(), ")"));
  }
  for (size_t i = 0; i < list.size(); ++i) {
    if (list[i].sizes() != inputs[i].sizes()) {
      Refuse(function, c10::str("invalid size of output tensor at index ", i, " (expected length ",
                                inputs[i].sizes(), ", got ", list[i].sizes(), ")"));
    }
    if (list[i].scalar_type() != inputs[i].scalar_type()) {
      Refuse(function, c10::str("invalid tensor type at index ", i, " (expected ",
                                inputs[i].scalar_type(), ", got ", list[i].scalar_type(), ")"));
    }
    CheckTensor(function, list[i]);
  }
}

// Ranks may contribute different sizes. Each has its own, and all lists, which obtain the same,
// have those of the first; what ranks have of each other's shows in the fingerprint.
void CheckBlocks(const char* function, const GroupFacts& group, const TensorLists& lists,
                 const Tensors& inputs) {
  const size_t first = static_cast<size_t>(group.rank) * inputs.size();
  for (const Tensors& list : lists) {
    for (size_t i = 0; i < list.size(); ++i) {
      const bool own = i >= first && i < first + inputs.size();
      const at::Tensor& like = own ? inputs[i - first] : lists[0][i];
      if (list[i].sizes() == like.sizes()) continue;
      Refuse(function, c10::str("invalid tensor size at index ", i, " (expected ", like.sizes(),
                                own ? " as this rank's input, got " : " as in the first list, got ",
                                list[i].sizes(), ")"));
    }
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

void CheckOnePerRank(const char* function, const char* which, const Tensors& tensors,
                     const GroupFacts& group) {
  if (tensors.size() == group.ranks()) return;
  Refuse(function, c10::str(which, " tensor list size ", tensors.size(),
                            " does not match world size ", group.size));
}

// What gather and scatter have in common: every rank has a part, and the root a list with a part
// for each rank, which this returns; elsewhere nothing.
Tensors RootsList(const char* function, const GroupFacts& group, int64_t root, const char* list,
                  const TensorLists& lists, const char* part, const Tensors& parts) {
  CheckRoot(function, root, group.size);
  const at::Tensor& own = Single(function, (std::string(part) + " ").c_str(), parts);
  if (root != group.rank) {
    if (!lists.empty()) Refuse(function, c10::str("requires empty ", list, " on non-root"));
    return {};
  }
  CheckSizes(function, SingleList(function, list, lists, group.size, own), own);
  return lists[0];
}

// The input of an operation that writes `block` with it, among other things.
at::Tensor Source(const at::Tensor& input, const at::Tensor& block, const MemoryExtents& written) {
  return IsInPlace(input, block) ? input : Unaliased(input, written);
}

// An all_gather for each input: `targets` has what the first rank has of each, then what the second
// has, and so on.
void AddGatherLists(const GroupFacts& group, const Tensors& targets, const Tensors& inputs,
                    const c10d::AllgatherOptions& options, Request& request) {
  const MemoryExtents written(targets);
  request.specs.reserve(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    Tensors blocks;
    for (size_t j = i; j < targets.size(); j += inputs.size()) blocks.push_back(targets[j]);
    OperationSpec& spec = request.add(group, Collective::kAllgather, options.timeout, inputs[i]);
    spec.input = EvenBuffer(Source(inputs[i], blocks[group.rank], written), 1, Access::kRead,
                            *request.staging);
    spec.output = ListBuffer(blocks, Access::kWrite, *request.staging);
  }
}

// An all_gather into one tensor for each input.
void AddGathersInto(const char* function, const GroupFacts& group, const Tensors& outputs,
                    const Tensors& inputs, const c10d::AllgatherOptions& options,
                    Request& request) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    CheckTensor(function, inputs[i]);
    CheckTensor(function, outputs[i], inputs[i].scalar_type());
    CheckWhole(function, group, "output", outputs[i], "input", inputs[i]);
  }
  const Tensors targets = Targets({outputs}, Access::kWrite, *request.staging);
  const MemoryExtents written(targets);
  request.specs.reserve(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const at::Tensor& input = inputs[i];
    const at::Tensor block =
        targets[i].view(-1).narrow(0, group.rank * input.numel(), input.numel());
    OperationSpec& spec = request.add(group, Collective::kAllgather, options.timeout, input);
    spec.input = EvenBuffer(Source(input, block, written), 1, Access::kRead, *request.staging);
    spec.output = EvenBuffer(targets[i], group.ranks(), Access::kWrite, *request.staging);
  }
}

// A reduce_scatter of one tensor for each output.
void AddScattersFrom(const char* function, const GroupFacts& group, const Tensors& outputs,
                     const Tensors& inputs, const c10d::ReduceScatterOptions& options,
                     Request& request) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    CheckTensor(function, outputs[i]);
    CheckTensor(function, inputs[i], outputs[i].scalar_type());
    CheckWhole(function, group, "input", inputs[i], "output", outputs[i]);
  }
  const Tensors targets = Targets({outputs}, Access::kWrite, *request.staging);
  const MemoryExtents written(targets);
  request.specs.reserve(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    OperationSpec& spec =
        request.add(group, Collective::kReduceScatter, options.timeout, targets[i]);
    SetReduction(function, options.reduceOp, spec);
    spec.input =
        EvenBuffer(Unaliased(inputs[i], written), group.ranks(), Access::kRead, *request.staging);
    spec.output = EvenBuffer(targets[i], 1, Access::kWrite, *request.staging);
  }
}

}  // namespace

Request AllGatherRequest(const GroupFacts& group, const TensorLists& outputs, const Tensors& inputs,
                         const c10d::AllgatherOptions& options) {
  constexpr const char* kFunction = "allgather";
  CheckPairs(kFunction, outputs.size(), inputs.size());
  const size_t length = inputs.size() * group.ranks();
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].size() == length) continue;
    Refuse(kFunction, c10::str("invalid output tensor list at index ", i, " (expected length ",
                               length, ", got ", outputs[i].size(), ")"));
  }
  CheckAlike(kFunction, inputs);
  CheckTensor(kFunction, inputs[0]);
  for (const Tensors& list : outputs) CheckTypes(kFunction, list, inputs[0]);
  CheckBlocks(kFunction, group, outputs, inputs);
  Request request(OpType::ALLGATHER, "rocecoll:all_gather", inputs, Flatten(outputs), options);
  request.call.lists = outputs.size();
  AddGatherLists(group, Targets(outputs, Access::kWrite, *request.staging), inputs, options,
                 request);
  return request;
}

Request AllGatherCoalescedRequest(const GroupFacts& group, const TensorLists& outputs,
                                  const Tensors& inputs, const c10d::AllgatherOptions& options) {
  constexpr const char* kFunction = "allgather_coalesced";
  if (inputs.empty()) Refuse(kFunction, "requires non-empty input tensor list");
  if (outputs.size() != group.ranks()) {
    Refuse(kFunction, "output lists should be equal to world size");
  }
  for (const at::Tensor& input : inputs) CheckTensor(kFunction, input);
  for (const Tensors& list : outputs) CheckPairedList(kFunction, list, inputs);
  const Tensors results = Flatten(outputs);
  Request request(OpType::ALLGATHER_COALESCED, "rocecoll:all_gather", inputs, results, options);
  request.call.lists = outputs.size();
  AddGatherLists(group, Targets({results}, Access::kWrite, *request.staging), inputs, options,
                 request);
  return request;
}

Request AllGatherIntoRequest(const GroupFacts& group, const at::Tensor& output,
                             const at::Tensor& input, const c10d::AllgatherOptions& options) {
  Request request(OpType::_ALLGATHER_BASE, "rocecoll:_all_gather_base", {input}, {output}, options);
  AddGathersInto("_allgather_base", group, {output}, {input}, options, request);
  return request;
}

Request AllGatherIntoCoalescedRequest(const GroupFacts& group, const Tensors& outputs,
                                      const Tensors& inputs,
                                      const c10d::AllgatherOptions& options) {
  constexpr const char* kFunction = "allgather_into_tensor_coalesced";
  CheckPairs(kFunction, outputs.size(), inputs.size());
  Request request(OpType::COALESCED, "rocecoll:all_gather_into_tensor_coalesced", inputs, outputs,
                  options);
  AddGathersInto(kFunction, group, outputs, inputs, options, request);
  return request;
}

Request ReduceScatterRequest(const GroupFacts& group, const Tensors& outputs,
                             const TensorLists& inputs, const c10d::ReduceScatterOptions& options) {
  constexpr const char* kFunction = "reduce_scatter";
  const at::Tensor& output = Single(kFunction, "output ", outputs);
  const Tensors& list = SingleList(kFunction, "input", inputs, group.size, output);
  const at::Tensor& own = list[group.rank];
  if (own.numel() != output.numel()) {
    Refuse(kFunction, "invalid tensor size: output has " + std::to_string(output.numel()) +
                          " elements, this rank's input " + std::to_string(own.numel()));
  }
  Request request(OpType::REDUCE_SCATTER, "rocecoll:reduce_scatter", list, outputs, options);
  OperationSpec& spec = request.add(group, Collective::kReduceScatter, options.timeout, output);
  SetReduction(kFunction, options.reduceOp, spec);
  spec.input = ListBuffer(Unaliased(list, MemoryExtents(outputs)), Access::kRead, *request.staging);
  spec.output = EvenBuffer(output, 1, Access::kWrite, *request.staging);
  return request;
}

Request ReduceScatterFromRequest(const GroupFacts& group, const at::Tensor& output,
                                 const at::Tensor& input,
                                 const c10d::ReduceScatterOptions& options) {
  Request request(OpType::_REDUCE_SCATTER_BASE, "rocecoll:_reduce_scatter_base", {input}, {output},
                  options);
  AddScattersFrom("_reduce_scatter_base", group, {output}, {input}, options, request);
  return request;
}

Request ReduceScatterFromCoalescedRequest(const GroupFacts& group, const Tensors& outputs,
                                          const Tensors& inputs,
                                          const c10d::ReduceScatterOptions& options) {
  constexpr const char* kFunction = "reduce_scatter_tensor_coalesced";
  CheckPairs(kFunction, outputs.size(), inputs.size());
  Request request(kReduceScatterCoalesced, "rocecoll:reduce_scatter_tensor_coalesced", inputs,
                  outputs, options);
  AddScattersFrom(kFunction, group, outputs, inputs, options, request);
  return request;
}

Request GatherRequest(const GroupFacts& group, const TensorLists& outputs, const Tensors& inputs,
                      const c10d::GatherOptions& options) {
  const Tensors list =
      RootsList("gather", group, options.rootRank, "output", outputs, "input", inputs);
  Request request(OpType::GATHER, "rocecoll:gather", inputs, list, options);
  at::Tensor input = inputs[0];
  OperationSpec& spec = request.add(group, Collective::kGather, options.timeout, input);
  spec.root = static_cast<Rank>(options.rootRank);
  if (!list.empty()) {
    const Tensors targets = Targets({list}, Access::kWrite, *request.staging);
    input = Source(input, targets[group.rank], MemoryExtents(targets));
    spec.output = ListBuffer(targets, Access::kWrite, *request.staging);
  }
  spec.input = EvenBuffer(input, 1, Access::kRead, *request.staging);
  return request;
}

Request GatherIntoRequest(const GroupFacts& group, const at::Tensor& output,
                          const at::Tensor& input, const c10d::GatherOptions& options) {
  TensorLists blocks;
  if (group.rank == options.rootRank) {
    TORCH_CHECK_VALUE(
        output.defined() && output.is_contiguous() && output.numel() == group.size * input.numel(),
        "ProcessGroupRocecoll::gather_single: the root's output must be contiguous "
        "and have the elements of ",
        group.size, " inputs");
    blocks.emplace_back();
    for (const at::Tensor& block : output.view({group.size, input.numel()}).unbind(0)) {
      blocks.back().push_back(block.view(input.sizes()));
    }
  }
  return GatherRequest(group, blocks, {input}, options);
}

Request ScatterRequest(const GroupFacts& group, const Tensors& outputs, const TensorLists& inputs,
                       const c10d::ScatterOptions& options) {
  const Tensors list =
      RootsList("scatter", group, options.rootRank, "input", inputs, "output", outputs);
  Request request(OpType::SCATTER, "rocecoll:scatter", list, outputs, options);
  OperationSpec& spec = request.add(group, Collective::kScatter, options.timeout, outputs[0]);
  spec.root = static_cast<Rank>(options.rootRank);
  if (!list.empty()) {
    const MemoryExtents written(outputs);
    Tensors source = list;
    for (int rank = 0; rank < group.size; ++rank) {
      if (rank == group.rank && IsInPlace(outputs[0], list[rank])) continue;
      source[rank] = Unaliased(list[rank], written);
    }
    spec.input = ListBuffer(source, Access::kRead, *request.staging);
  }
  spec.output = EvenBuffer(outputs[0], 1, Access::kWrite, *request.staging);
  return request;
}

Request AllToAllRequest(const GroupFacts& group, const Tensors& outputs, const Tensors& inputs,
                        const c10d::AllToAllOptions& options) {
  constexpr const char* kFunction = "alltoall";
  CheckOnePerRank(kFunction, "input", inputs, group);
  CheckOnePerRank(kFunction, "output", outputs, group);
  CheckTypes(kFunction, inputs, inputs[0]);
  CheckTypes(kFunction, outputs, inputs[0]);
  Request request(OpType::ALLTOALL, "rocecoll:all_to_all", inputs, outputs, options);
  OperationSpec& spec = request.add(group, Collective::kAlltoall, options.timeout, inputs[0]);
  spec.uniform = false;  // a rank sees only the sizes of its own tensors
  const Tensors targets = Targets({outputs}, Access::kWrite, *request.staging);
  spec.input =
      ListBuffer(Unaliased(inputs, MemoryExtents(targets)), Access::kRead, *request.staging);
  spec.output = ListBuffer(targets, Access::kWrite, *request.staging);
  return request;
}

Request AllToAllSplitRequest(const GroupFacts& group, const at::Tensor& output,
                             const at::Tensor& input, const std::vector<int64_t>& output_splits,
                             const std::vector<int64_t>& input_splits,
                             const c10d::AllToAllOptions& options) {
  constexpr const char* kFunction = "alltoall_base";
  CheckTensor(kFunction, input);
  CheckTensor(kFunction, output, input.scalar_type());
  const auto to = CheckSplits(kFunction, "input", input, input_splits, group.size);
  const auto from = CheckSplits(kFunction, "output", output, output_splits, group.size);
  Request request(OpType::ALLTOALL_BASE, "rocecoll:all_to_all", {input}, {output}, options);
  OperationSpec& spec = request.add(group, Collective::kAlltoall, options.timeout, input);
  // Whoever names splits expects the other ranks to do so, too.
  spec.uniform = input_splits.empty() && output_splits.empty();
  spec.input =
      SplitBuffer(Unaliased(input, MemoryExtents({output})), to, Access::kRead, *request.staging);
  spec.output = SplitBuffer(output, from, Access::kWrite, *request.staging);
  return request;
}

}  // namespace rocecoll::torch_adapter
