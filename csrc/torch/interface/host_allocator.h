// SPDX-License-Identifier: Apache-2.0
// The allocator of pinned memory, which a device copies from and to on its own, for all releases of
// torch that setup.py names.
#pragma once

#include "torch/interface/torch_version.h"

#if TORCH_VERSION_MINOR < 8
#include <ATen/Context.h>
#else
#include <ATen/core/CachingHostAllocator.h>
#endif

namespace rocecoll::torch_adapter {

#if TORCH_VERSION_MINOR < 8

inline c10::Allocator* HostAllocator(c10::DeviceType type) {
  return at::globalContext().getPinnedMemoryAllocator(type);
}

#else

inline c10::Allocator* HostAllocator(c10::DeviceType type) { return at::getHostAllocator(type); }

#endif

}  // namespace rocecoll::torch_adapter
