// SPDX-License-Identifier: Apache-2.0
#include "torch/backend/arguments.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <string>

#include "torch/tensors/device_staging.h"

namespace rocecoll::torch_adapter {
namespace {

// What torch calls our reductions.
struct TorchOp {
  ReduceOp op;
  c10d::ReduceOp::RedOpType torch;
};

constexpr auto kTorchOps = std::to_array<TorchOp>({
    {ReduceOp::kSum, c10d::ReduceOp::SUM},
    {ReduceOp::kAvg, c10d::ReduceOp::AVG},
    {ReduceOp::kProduct, c10d::ReduceOp::PRODUCT},
    {ReduceOp::kMin, c10d::ReduceOp::MIN},
    {ReduceOp::kMax, c10d::ReduceOp::MAX},
    {ReduceOp::kBand, c10d::ReduceOp::BAND},
    {ReduceOp::kBor, c10d::ReduceOp::BOR},
    {ReduceOp::kBxor, c10d::ReduceOp::BXOR},
    {ReduceOp::kPremulSum, c10d::ReduceOp::PREMUL_SUM},
});
static_assert(HasRowForEach(kTorchOps, &TorchOp::op));

}  // namespace

void Refuse(const char* function, const std::string& what) {
  TORCH_CHECK(false, "ProcessGroupRocecoll::", function, ": ", what);
}

void CheckRoot(const char* function, int64_t root, int size) {
  if (root < 0 || root >= size) Refuse(function, "invalid root rank: " + std::to_string(root));
}

void CheckTensor(const char* function, const at::Tensor& tensor, at::ScalarType type) {
  if (tensor.layout() != at::kStrided) {
    TORCH_CHECK_NOT_IMPLEMENTED(false, "ProcessGroupRocecoll::", function,
                                ": sparse tensors are not supported, got layout ", tensor.layout());
  }
  if (!tensor.is_cpu() && !IsAccelerator(tensor.device())) {
    Refuse(function, "invalid tensor type: only CPU and accelerator tensors are supported, got " +
                         tensor.device().str());
  }
  if (tensor.scalar_type() != type) {
    Refuse(function, std::string("invalid tensor type: expected ") + c10::toString(type) +
                         ", got " + c10::toString(tensor.scalar_type()));
  }
}

void CheckTensors(const char* function, const std::vector<at::Tensor>& tensors,
                  at::ScalarType type) {
  for (const at::Tensor& tensor : tensors) CheckTensor(function, tensor, type);
}

const at::Tensor& Single(const char* function, const std::vector<at::Tensor>& tensors) {
  if (tensors.empty()) Refuse(function, "requires non-empty tensor list");
  CheckTensors(function, tensors, tensors[0].scalar_type());
  CheckSizes(function, tensors, tensors[0]);
  if (tensors.size() != 1) Refuse(function, "requires a single-element tensor list");
  return tensors[0];
}

const std::vector<at::Tensor>& SingleList(const char* function, const char* name,
                                          const std::vector<std::vector<at::Tensor>>& list,
                                          int size, at::ScalarType type) {
  if (list.size() != 1) {
    Refuse(function, std::string("requires a single-element ") + name +
                         " list containing a list with " + std::to_string(size) + " tensors");
  }
  if (list[0].size() != static_cast<size_t>(size)) {
    Refuse(function, std::string("Incorrect ") + name + " list size " +
                         std::to_string(list[0].size()) + ". The list size should be " +
                         std::to_string(size) + ", same as size of the process group.");
  }
  CheckTensors(function, list[0], type);
  return list[0];
}

void CheckSizes(const char* function, const std::vector<at::Tensor>& tensors,
                const at::Tensor& like) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].sizes() == like.sizes()) continue;
    Refuse(function, c10::str("invalid tensor size at index ", i, " (expected ", like.sizes(),
                              ", got ", tensors[i].sizes(), ")"));
  }
}

std::vector<int64_t> CheckSplits(const char* function, const char* name, const at::Tensor& tensor,
                                 const std::vector<int64_t>& splits, int size) {
  if (tensor.dim() == 0) {
    Refuse(function,
           std::string("invalid tensor size: the ") + name + " tensor has no dimension to split");
  }
  const int64_t rows = tensor.size(0);
  if (splits.empty()) {
    if (rows % size != 0) {
      Refuse(function, "Tensor's dim 0 does not divide equally across group size: the " +
                           std::string(name) + " tensor has " + std::to_string(rows) +
                           " rows for " + std::to_string(size) + " ranks");
    }
    return std::vector<int64_t>(static_cast<size_t>(size), rows / size);
  }
  if (splits.size() != static_cast<size_t>(size)) {
    Refuse(function,
           "Number of tensor splits not equal to group size: " + std::to_string(splits.size()) +
               " " + name + " splits for " + std::to_string(size) + " ranks");
  }
  for (int64_t split : splits) {
    if (split < 0) Refuse(function, std::string("negative ") + name + " split");
  }
  if (std::accumulate(splits.begin(), splits.end(), int64_t{0}) != rows) {
    Refuse(function, std::string("Split sizes doesn't match total dim 0 size of the ") + name +
                         " tensor (" + std::to_string(rows) + ")");
  }
  return splits;
}

void SetReduction(const char* function, const c10d::ReduceOp& op, OperationSpec& spec) {
  const auto found = std::ranges::find(kTorchOps, op.op_, &TorchOp::torch);
  if (found == kTorchOps.end()) {
    Refuse(function, "Unhandled ReduceOp " + std::to_string(static_cast<int>(op.op_)));
  }
  spec.reduce_op = found->op;
  if (spec.reduce_op != ReduceOp::kPremulSum) return;
  const auto* factor = dynamic_cast<const c10d::PreMulSumSupplement*>(op.supplement_.get());
  if (!factor) Refuse(function, "ReduceOp.PREMUL_SUM without a factor");
  spec.premul_factor = factor->tensor_factor.defined() ? factor->tensor_factor.item().to<double>()
                                                       : factor->double_factor;
}

}  // namespace rocecoll::torch_adapter
