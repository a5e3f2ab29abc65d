// SPDX-License-Identifier: Apache-2.0
// Short lists of an accelerator's tensors as one tensor there: a copy between host and device costs
// some microseconds however short it is, while a device gathers and spreads many tensors at once.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <vector>

namespace rocecoll::torch_adapter {

// Tensors, and the parts of one contiguous tensor that stand for them.
struct ShortList {
  // Whether that pays, of a list of one element type.
  static bool serves(const std::vector<at::Tensor>& tensors);
  // With parts whose elements are yet to come.
  explicit ShortList(std::vector<at::Tensor> of);

  // On the current stream.
  void gather();
  void spread();

  std::vector<at::Tensor> tensors;
  at::Tensor whole;
  std::vector<at::Tensor> parts;
};

}  // namespace rocecoll::torch_adapter
