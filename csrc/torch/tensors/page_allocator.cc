// SPDX-License-Identifier: Apache-2.0
#include "torch/tensors/page_allocator.h"

#include <c10/util/Exception.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>

#include "base/arithmetic.h"

namespace rocecoll::torch_adapter {
namespace {

// The size of a transparent huge page on x86-64, and on aarch64 with 4 KiB pages.
constexpr size_t kHugePageBytes = size_t{2} << 20;

}  // namespace

PageAllocator& PageAllocator::Instance() {
  static auto* allocator = new PageAllocator;  // never destroyed: tensors may outlive main()
  return *allocator;
}

c10::DataPtr PageAllocator::allocate(size_t bytes) {
  void* data = nullptr;
  if (bytes > 0) {
    const bool large = bytes >= kHugePageBytes;
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const int error = posix_memalign(&data, large ? kHugePageBytes : page, RoundUp(bytes, page));
    TORCH_CHECK_WITH(OutOfMemoryError, error == 0, "rocecoll: no memory for a tensor of ", bytes,
                     " bytes");
    // Only advice: a kernel without huge pages refuses it.
    if (large) madvise(data, bytes / kHugePageBytes * kHugePageBytes, MADV_HUGEPAGE);
  }
  return {data, data, raw_deleter(), c10::Device(c10::DeviceType::CPU)};
}

c10::DeleterFnPtr PageAllocator::raw_deleter() const { return &std::free; }

void PageAllocator::copy_data(void* target, const void* source, size_t bytes) const {
  default_copy_data(target, source, bytes);
}

}  // namespace rocecoll::torch_adapter
