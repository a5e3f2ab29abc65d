// SPDX-License-Identifier: Apache-2.0
// Memory for CPU tensors that are communicated: whole pages, and huge ones where a block is large,
// so that the kernel's copies to and from the socket touch few of them; and known to last until it
// is freed, so that it stays registered with RDMA devices (base/lasting_memory.h).
#pragma once

#include <c10/core/Allocator.h>

#include <cstddef>

namespace rocecoll::torch_adapter {

class PageAllocator final : public c10::Allocator {
 public:
  static PageAllocator& Instance();

  c10::DataPtr allocate(size_t bytes) override;
  c10::DeleterFnPtr raw_deleter() const override;
  void copy_data(void* target, const void* source, size_t bytes) const override;
};

}  // namespace rocecoll::torch_adapter
