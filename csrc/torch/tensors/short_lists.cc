// SPDX-License-Identifier: Apache-2.0
#include "torch/tensors/short_lists.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <utility>

#include "torch/process/plain_dispatch.h"

namespace rocecoll::torch_adapter {
namespace {

constexpr size_t kShortBytes = size_t{32} << 10;  // of all tensors
constexpr size_t kFewTensors = 2;                 // cost as little one by one

// As copies between host and device, which neither autograd nor version counters see.
void CopyAll(const std::vector<at::Tensor>& to, const std::vector<at::Tensor>& from) {
  const PlainDispatch plain;
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  at::_foreach_copy_(to, from, /*non_blocking=*/true);
}

}  // namespace

bool ShortList::serves(const std::vector<at::Tensor>& tensors) {
  size_t bytes = 0;
  for (const at::Tensor& tensor : tensors) bytes += tensor.nbytes();
  // Tensors of InferenceMode are written in that mode alone.
  const auto is_inference = [](const at::Tensor& tensor) { return tensor.is_inference(); };
  return tensors.size() > kFewTensors && bytes > 0 && bytes <= kShortBytes &&
         std::ranges::none_of(tensors, is_inference);
}

ShortList::ShortList(std::vector<at::Tensor> of) : tensors(std::move(of)) {
  const PlainDispatch plain;
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  int64_t elements = 0;
  for (const at::Tensor& tensor : tensors) elements += tensor.numel();
  whole = at::empty({elements}, tensors[0].options());
  int64_t offset = 0;
  for (const at::Tensor& tensor : tensors) {
    parts.push_back(whole.narrow(0, offset, tensor.numel()).view(tensor.sizes()));
    offset += tensor.numel();
  }
}

void ShortList::gather() { CopyAll(parts, tensors); }

void ShortList::spread() { CopyAll(tensors, parts); }

}  // namespace rocecoll::torch_adapter
