// SPDX-License-Identifier: Apache-2.0
#include "torch/tensors/tensor_layout.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <array>

#include "base/named_status.h"
#include "torch/process/plain_dispatch.h"

namespace rocecoll::torch_adapter {
namespace {

// What torch calls our types.
struct TorchType {
  DataType type;
  at::ScalarType torch;
};

constexpr auto kTorchTypes = std::to_array<TorchType>({
    {DataType::kBool, at::ScalarType::Bool},
    {DataType::kUint8, at::ScalarType::Byte},
    {DataType::kInt8, at::ScalarType::Char},
    {DataType::kUint16, at::ScalarType::UInt16},
    {DataType::kInt16, at::ScalarType::Short},
    {DataType::kUint32, at::ScalarType::UInt32},
    {DataType::kInt32, at::ScalarType::Int},
    {DataType::kUint64, at::ScalarType::UInt64},
    {DataType::kInt64, at::ScalarType::Long},
    {DataType::kFloat16, at::ScalarType::Half},
    {DataType::kBfloat16, at::ScalarType::BFloat16},
    {DataType::kFloat32, at::ScalarType::Float},
    {DataType::kFloat64, at::ScalarType::Double},
    {DataType::kComplex32, at::ScalarType::ComplexHalf},
    {DataType::kComplex64, at::ScalarType::ComplexFloat},
    {DataType::kComplex128, at::ScalarType::ComplexDouble},
    {DataType::kFloat8E4m3fn, at::ScalarType::Float8_e4m3fn},
    {DataType::kFloat8E4m3fnuz, at::ScalarType::Float8_e4m3fnuz},
    {DataType::kFloat8E5m2, at::ScalarType::Float8_e5m2},
    {DataType::kFloat8E5m2fnuz, at::ScalarType::Float8_e5m2fnuz},
    {DataType::kFloat8E8m0fnu, at::ScalarType::Float8_e8m0fnu},
});
static_assert(HasRowForEach(kTorchTypes, &TorchType::type));

// The engine reads elements at multiples of their size; frombuffer() may give anything.
bool IsAddressable(const at::Tensor& tensor) {
  if (!tensor.is_contiguous() || tensor.is_conj() || tensor.is_neg()) return false;
  return reinterpret_cast<uintptr_t>(tensor.const_data_ptr()) % tensor.element_size() == 0;
}

// Where the engine finds it. A copy-on-write tensor that is only read stays shared.
void* DataOf(const at::Tensor& tensor, Access access, Staging& staging) {
  if (staging.device) return staging.device->place({&tensor, 1});
  if (access == Access::kRead) return const_cast<void*>(tensor.const_data_ptr());
  return tensor.mutable_data_ptr();
}

// Where the engine finds each, null for those without elements.
std::vector<std::byte*> StartsOf(const std::vector<at::Tensor>& tensors, Access access,
                                 Staging& staging) {
  std::byte* next = staging.device ? staging.device->place(tensors) : nullptr;
  std::vector<std::byte*> starts;
  starts.reserve(tensors.size());
  for (const at::Tensor& tensor : tensors) {
    if (tensor.numel() == 0) {
      starts.push_back(nullptr);
    } else if (staging.device) {
      starts.push_back(next);
      next += tensor.nbytes();
    } else {
      starts.push_back(static_cast<std::byte*>(DataOf(tensor, access, staging)));
    }
  }
  return starts;
}

// A short list of an accelerator's tensors in one that the engine finds in their place.
std::vector<at::Tensor> AsShortList(std::vector<at::Tensor> tensors, Access access,
                                    Staging& staging) {
  ShortList list(std::move(tensors));
  std::vector<at::Tensor> parts = list.parts;
  staging.memory.push_back(list.whole.storage());
  if (access != Access::kWrite) list.gather();
  if (access != Access::kRead) staging.spread.push_back(std::move(list));
  return parts;
}

// A contiguous tensor in its place, and its values if the operation reads them.
at::Tensor Temporary(const at::Tensor& tensor, Access access) {
  at::Tensor temporary = at::empty_like(tensor, tensor.options(), at::MemoryFormat::Contiguous);
  if (access != Access::kWrite) temporary.copy_(tensor);
  return temporary;
}

}  // namespace

std::vector<at::Tensor> Flatten(const std::vector<std::vector<at::Tensor>>& lists) {
  std::vector<at::Tensor> flat;
  for (const auto& list : lists) flat.insert(flat.end(), list.begin(), list.end());
  return flat;
}

void Staging::store_later(const at::Tensor& result, const at::Tensor& value) {
  TORCH_CHECK(at::has_internal_overlap(result) != at::MemOverlap::Yes, kNamePrefix,
              "elements of a tensor to be written share memory (sizes ", result.sizes(),
              ", strides ", result.strides(), "), as after expand(): pass a clone() of it");
  copy_back.emplace_back(result.detach(), value);
}

void Staging::copy_results() {
  const PlainDispatch plain;
  for (ShortList& list : spread) {
    for (const at::Tensor& tensor : list.tensors) device->copies().keep(tensor);
    device->copies().keep(list.whole);
    list.spread();
  }
  spread.clear();
  for (auto& [target, temporary] : copy_back) {
    if (device) {
      device->copies().keep(target);
      device->copies().keep(temporary);  // which the operation may only have read
    }
    const c10::InferenceMode as_made(target.is_inference());  // the caller's mode, on any thread
    target.copy_(temporary, /*non_blocking=*/true);
  }
  copy_back.clear();
}

at::Tensor Addressable(const at::Tensor& tensor, Access access, Staging& staging) {
  // Whose graph is not to grow by the copies made here. Others are spared the alias.
  at::Tensor usable = tensor.requires_grad() ? tensor.detach() : tensor;
  if (staging.memory.empty()) {
    if (!usable.is_cpu()) staging.device = std::make_unique<DeviceStaging>(usable.device());
  } else if (usable.device() != staging.memory[0].device()) {
    TORCH_CHECK(false, kNamePrefix, "the tensors of one call must be on the same device, got ",
                staging.memory[0].device(), " and ", usable.device());
  }
  if (!IsAddressable(usable)) {
    at::Tensor temporary = Temporary(usable, access);
    if (access != Access::kRead) staging.store_later(usable, temporary);
    usable = std::move(temporary);
  }
  staging.memory.push_back(usable.storage());
  return usable;
}

OperationBuffer EvenBuffer(const at::Tensor& tensor, uint32_t blocks, Access access,
                           Staging& staging) {
  const at::Tensor usable = Addressable(tensor, access, staging);
  return {DataOf(usable, access, staging), Partition::Even(usable.numel(), blocks)};
}

OperationBuffer ListBuffer(const std::vector<at::Tensor>& tensors, Access access,
                           Staging& staging) {
  std::vector<at::Tensor> usable;
  usable.reserve(tensors.size());
  for (const at::Tensor& tensor : tensors) usable.push_back(Addressable(tensor, access, staging));
  if (staging.device && ShortList::serves(usable)) {
    usable = AsShortList(std::move(usable), access, staging);
  }
  const std::vector<std::byte*> starts = StartsOf(usable, access, staging);
  std::byte* base = nullptr;
  for (std::byte* start : starts) {
    if (start && (!base || start < base)) base = start;
  }
  std::vector<ElementRange> blocks;
  blocks.reserve(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    const uint64_t bytes = starts[i] ? static_cast<uint64_t>(starts[i] - base) : 0;
    blocks.push_back(
        {bytes / tensors[i].element_size(), static_cast<uint64_t>(tensors[i].numel())});
  }
  return {base, Partition::Explicit(std::move(blocks))};
}

OperationBuffer SplitBuffer(const at::Tensor& tensor, const std::vector<int64_t>& splits,
                            Access access, Staging& staging) {
  const at::Tensor usable = Addressable(tensor, access, staging);
  const uint64_t row = usable.size(0) == 0 ? 0 : usable.numel() / usable.size(0);
  std::vector<ElementRange> blocks;
  blocks.reserve(splits.size());
  uint64_t offset = 0;
  for (int64_t split : splits) {
    blocks.push_back({offset, split * row});
    offset += split * row;
  }
  return {DataOf(usable, access, staging), Partition::Explicit(std::move(blocks))};
}

std::vector<at::Tensor> Targets(const std::vector<std::vector<at::Tensor>>& copies, Access access,
                                Staging& staging) {
  const bool apart = !MemoryExtents(Flatten(copies)).overlap();
  std::vector<at::Tensor> targets;
  targets.reserve(copies[0].size());
  for (const at::Tensor& result : copies[0]) {
    const at::Tensor usable = result.detach();
    targets.push_back(apart && IsAddressable(usable) ? usable : Temporary(usable, access));
  }
  for (const std::vector<at::Tensor>& list : copies) {
    for (size_t i = 0; i < list.size(); ++i) {
      if (list[i].const_data_ptr() == targets[i].const_data_ptr()) continue;
      staging.store_later(list[i], targets[i]);
    }
  }
  return targets;
}

at::Tensor Unaliased(const at::Tensor& input, const MemoryExtents& written) {
  return written.meet(input) ? input.clone(at::MemoryFormat::Contiguous) : input;
}

std::vector<at::Tensor> Unaliased(std::vector<at::Tensor> inputs, const MemoryExtents& written) {
  for (at::Tensor& input : inputs) input = Unaliased(input, written);
  return inputs;
}

DataType ToDataType(at::ScalarType type) {
  const auto found = std::ranges::find(kTorchTypes, type, &TorchType::torch);
  TORCH_CHECK_TYPE(found != kTorchTypes.end(), kNamePrefix, "tensors of type ", c10::toString(type),
                   " cannot be communicated; tensor.view(torch.uint8) has their bytes, which can");
  return found->type;
}

}  // namespace rocecoll::torch_adapter
