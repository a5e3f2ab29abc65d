// SPDX-License-Identifier: Apache-2.0
#include "torch/tensors/page_allocator.h"

#include <c10/util/Exception.h>

#include "base/lasting_memory.h"
#include "base/named_status.h"

namespace rocecoll::torch_adapter {

PageAllocator& PageAllocator::Instance() {
  static auto* allocator = new PageAllocator;  // never destroyed: tensors may outlive main()
  return *allocator;
}

c10::DataPtr PageAllocator::allocate(size_t bytes) {
  void* data = nullptr;
  if (bytes > 0) {
    data = LastingMemory::Allocate(bytes).release();
    TORCH_CHECK_WITH(OutOfMemoryError, data != nullptr, kNamePrefix, "no memory for a tensor of ",
                     bytes, " bytes");
  }
  return {data, data, raw_deleter(), c10::Device(c10::DeviceType::CPU)};
}

c10::DeleterFnPtr PageAllocator::raw_deleter() const { return &LastingMemory::Free; }

void PageAllocator::copy_data(void* target, const void* source, size_t bytes) const {
  default_copy_data(target, source, bytes);
}

}  // namespace rocecoll::torch_adapter
