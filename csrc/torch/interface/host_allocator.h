// SPDX-License-Identifier: Apache-2.0
// The allocator of memory that a device copies from and to by itself, as all releases of torch that
// setup.py names have it.
#pragma once

#if __has_include(<torch/headeronly/version.h>)
#include <torch/headeronly/version.h>
#else  // before 2.10
#include <torch/version.h>
#endif

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
// Copies of torch's own note by themselves what they use.
inline void RecordUse(c10::DeviceType, const c10::DataPtr&, const c10::Stream&) {}

#else

inline c10::Allocator* HostAllocator(c10::DeviceType type) { return at::getHostAllocator(type); }
// `memory` is used by what `stream` has been given, and not given to others before that is done.
inline void RecordUse(c10::DeviceType type, const c10::DataPtr& memory, const c10::Stream& stream) {
  at::getHostAllocator(type)->record_event(memory.get(), memory.get_context(), stream);
}

#endif

}  // namespace rocecoll::torch_adapter
