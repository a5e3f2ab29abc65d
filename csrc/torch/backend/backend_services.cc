// SPDX-License-Identifier: Apache-2.0
// What the backend offers beside communication: a look at completed works, and memory.
#include <ATen/EmptyTensor.h>

#include <utility>

#include "torch/backend/arguments.h"
#include "torch/backend/backend.h"
#include "torch/tensors/page_allocator.h"

namespace rocecoll::torch_adapter {

void Backend::registerOnCompletionHook(
    std::function<void(std::shared_ptr<c10d::WorkInfo>)>&& hook) {
  completion_hook_->set(std::move(hook));
  // What hasHooks() looks at.
  onCompletionHook_ = [](const std::shared_ptr<c10d::WorkInfo>&) {};
}

void Backend::waitForPendingWorks() { completion_hook_->wait_for_all(); }

at::Tensor Backend::allocateTensor(long size, at::TensorOptions options) {
  constexpr const char* kFunction = "allocateTensor";
  if (size < 0) Refuse(kFunction, "invalid tensor size: " + std::to_string(size));
  if (!options.device().is_cpu()) {
    Refuse(kFunction, "only CPU tensors are supported, got " + options.device().str());
  }
  return at::detail::empty_generic({size}, &PageAllocator::Instance(),
                                   c10::DispatchKeySet(c10::DispatchKey::CPU),
                                   c10::typeMetaToScalarType(options.dtype()), std::nullopt);
}

}  // namespace rocecoll::torch_adapter
