// SPDX-License-Identifier: Apache-2.0
// The allocator of memory that a device copies from and to by itself, as all releases of torch that
// setup.py names have it.
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
