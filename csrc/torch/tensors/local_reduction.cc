// SPDX-License-Identifier: Apache-2.0
#include "torch/tensors/local_reduction.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/add.h>
#include <ATen/ops/bitwise_and.h>
#include <ATen/ops/bitwise_or.h>
#include <ATen/ops/bitwise_xor.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/mul.h>

namespace rocecoll::torch_adapter {
namespace {

at::Tensor ReduceTwo(ReduceOp op, const at::Tensor& left, const at::Tensor& right) {
  switch (op) {
    case ReduceOp::kProduct:
      return at::mul(left, right);
    case ReduceOp::kMin:
      return at::minimum(left, right);
    case ReduceOp::kMax:
      return at::maximum(left, right);
    case ReduceOp::kBand:
      return at::bitwise_and(left, right);
    case ReduceOp::kBor:
      return at::bitwise_or(left, right);
    case ReduceOp::kBxor:
      return at::bitwise_xor(left, right);
    default:
      return at::add(left, right);
  }
}

}  // namespace

at::Tensor ReduceLocally(ReduceOp op, const std::vector<at::Tensor>& tensors) {
  const at::NoGradGuard no_grad;
  at::Tensor result = tensors[0].detach();
  for (size_t i = 1; i < tensors.size(); ++i) result = ReduceTwo(op, result, tensors[i]);
  return result;
}

}  // namespace rocecoll::torch_adapter
