// SPDX-License-Identifier: Apache-2.0
#include "torch/backend/arguments.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <string>

#include "torch/interface/c10d_interface.h"
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

// Of the tensor that has that place in a list.
template <typename Property>
void CheckSame(const char* function, const char* what, size_t index, const Property& expected,
               const Property& actual) {
  if (expected == actual) return;
  Refuse(function, c10::str("invalid tensor ", what, " at index ", index, " (expected ", expected,
                            ", got ", actual, ")"));
}

}  // namespace

void Refuse(const char* function, const std::string& what) {
  TORCH_CHECK(false, "ProcessGroupRocecoll::", function, ": ", what);
}

void CheckRoot(const char* function, int64_t root, int size) {
  if (root < 0 || root >= size) Refuse(function, "invalid root rank: " + std::to_string(root));
}

void CheckTensor(const char* function, const at::Tensor& tensor) {
  if (tensor.layout() != at::kStrided) {
    Refuse(function,
           c10::str("unsupported layout ", tensor.layout(), ": only supports dense tensors here"));
  }
  if (!tensor.is_cpu() && !IsAccelerator(tensor.device())) {
    Refuse(function, "invalid tensor type: only CPU and accelerator tensors are supported, got " +
                         tensor.device().str());
  }
}

void CheckTensor(const char* function, const at::Tensor& tensor, at::ScalarType type) {
  CheckTensor(function, tensor);
  if (tensor.scalar_type() == type) return;
  Refuse(function,
         c10::str("invalid tensor type (expected ", type, ", got ", tensor.scalar_type(), ")"));
}

void CheckLayouts(const char* function, const std::vector<at::Tensor>& tensors) {
  if (tensors.empty()) Refuse(function, "requires non-empty tensor list");
  for (size_t i = 1; i < tensors.size(); ++i) {
    CheckSame(function, "layout", i, tensors[0].layout(), tensors[i].layout());
  }
}

void CheckAlike(const char* function, const std::vector<at::Tensor>& tensors) {
  CheckLayouts(function, tensors);
  for (size_t i = 1; i < tensors.size(); ++i) {
    CheckSame(function, "type", i, tensors[0].scalar_type(), tensors[i].scalar_type());
    CheckSame(function, "device", i, tensors[0].device(), tensors[i].device());
  }
  CheckSizes(function, tensors, tensors[0]);
}

void CheckTypes(const char* function, const std::vector<at::Tensor>& tensors,
                const at::Tensor& like) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    CheckTensor(function, tensors[i]);
    CheckSame(function, "type", i, like.scalar_type(), tensors[i].scalar_type());
  }
}

void CheckSizes(const char* function, const std::vector<at::Tensor>& tensors,
                const at::Tensor& like) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    CheckSame(function, "size", i, like.sizes(), tensors[i].sizes());
  }
}

const at::Tensor& Single(const char* function, const char* which,
                         const std::vector<at::Tensor>& tensors) {
  if (tensors.size() != 1) {
    Refuse(function, c10::str("requires a single-element ", which, "tensor list"));
  }
  CheckTensor(function, tensors[0]);
  return tensors[0];
}

const std::vector<at::Tensor>& SingleList(const char* function, const char* which,
                                          const std::vector<std::vector<at::Tensor>>& list,
                                          int size, const at::Tensor& like) {
  if (list.size() != 1) {
    Refuse(function, c10::str("requires a single-element ", which, " list containing a list with ",
                              size, " tensors"));
  }
  if (list[0].size() != static_cast<size_t>(size)) {
    std::string subject = which;
    subject[0] = static_cast<char>(std::toupper(subject[0]));
    Refuse(function,
           c10::str("Incorrect ", which, " list size ", list[0].size(), ". ", subject,
                    " list size should be ", size, ", same as size of the process group."));
  }
  CheckTypes(function, list[0], like);
  return list[0];
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
  int64_t left = rows;  // a sum of all might overflow
  for (int64_t split : splits) {
    if (split < 0) Refuse(function, std::string("negative ") + name + " split");
    left = split > left ? -1 : left - split;
  }
  if (left != 0) {
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
  const auto* factor = dynamic_cast<const PreMulSumSupplement*>(op.supplement_.get());
  if (!factor) Refuse(function, "ReduceOp.PREMUL_SUM without a factor");
  spec.premul_factor = factor->tensor_factor.defined() ? factor->tensor_factor.item().to<double>()
                                                       : factor->double_factor;
}

}  // namespace rocecoll::torch_adapter
