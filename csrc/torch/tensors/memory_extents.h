// SPDX-License-Identifier: Apache-2.0
// Where tensors lie in memory, to tell which share some of it. A strided tensor counts as
// everything from its first element to its last.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace rocecoll::torch_adapter {

class MemoryExtents {
 public:
  explicit MemoryExtents(const std::vector<at::Tensor>& tensors);

  // Whether two of the tensors share memory; one that is named twice does.
  bool overlap() const { return overlap_; }
  // Whether one of them shares memory with `tensor`.
  bool meet(const at::Tensor& tensor) const;

 private:
  using Extent = std::pair<uintptr_t, uintptr_t>;  // first byte, one past the last
  static Extent ExtentOf(const at::Tensor& tensor);

  std::vector<Extent> extents_;  // by address; none meets another
  bool overlap_ = false;
};

}  // namespace rocecoll::torch_adapter
