// SPDX-License-Identifier: Apache-2.0
#include "torch/tensors/memory_extents.h"

#include <algorithm>

namespace rocecoll::torch_adapter {

MemoryExtents::Extent MemoryExtents::ExtentOf(const at::Tensor& tensor) {
  const auto first = reinterpret_cast<uintptr_t>(tensor.const_data_ptr());
  if (tensor.numel() == 0) return {first, first};
  // Strides are never negative in torch, so the last element has the highest address.
  int64_t last = 0;
  for (int64_t i = 0; i < tensor.dim(); ++i) last += (tensor.size(i) - 1) * tensor.stride(i);
  return {first, first + (last + 1) * tensor.element_size()};
}

MemoryExtents::MemoryExtents(const std::vector<at::Tensor>& tensors) {
  std::vector<Extent> sorted;
  sorted.reserve(tensors.size());
  for (const at::Tensor& tensor : tensors) {
    if (tensor.numel() > 0) sorted.push_back(ExtentOf(tensor));
  }
  std::ranges::sort(sorted);
  extents_.reserve(sorted.size());
  for (const Extent& extent : sorted) {
    if (extents_.empty() || extents_.back().second <= extent.first) {
      extents_.push_back(extent);
      continue;
    }
    overlap_ = true;
    extents_.back().second = std::max(extents_.back().second, extent.second);
  }
}

bool MemoryExtents::meet(const at::Tensor& tensor) const {
  const Extent its = ExtentOf(tensor);
  const auto behind = std::ranges::upper_bound(extents_, its.first, {}, &Extent::second);
  return behind != extents_.end() && behind->first < its.second;
}

}  // namespace rocecoll::torch_adapter
