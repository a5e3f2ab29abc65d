// SPDX-License-Identifier: Apache-2.0
// Whether a stream is being captured into a graph, as all releases of torch that setup.py names
// tell it.
#pragma once

#include <c10/core/Stream.h>

#include "torch/interface/torch_version.h"

#if TORCH_VERSION_MINOR < 12
#include <pybind11/pybind11.h>
#else
#include <c10/core/impl/VirtualGuardImpl.h>
#endif

namespace rocecoll::torch_adapter {

// Whether what is queued there becomes a part of a graph, instead of being run. Before 2.12 only
// torch's modules of devices tell, in Python, and of the current stream, which it has to be.
inline bool IsCapturing(const c10::Stream& stream) {
#if TORCH_VERSION_MINOR < 12
  constexpr const char* kAsks = "is_current_stream_capturing";
  const pybind11::gil_scoped_acquire gil;
  const auto module = pybind11::module_::import("torch").attr("get_device_module")(
      c10::DeviceTypeName(stream.device_type(), /*lower_case=*/true));
  return pybind11::hasattr(module, kAsks) && module.attr(kAsks)().cast<bool>();
#else
  return c10::impl::VirtualGuardImpl(stream.device_type()).isStreamCapturing(stream);
#endif
}

}  // namespace rocecoll::torch_adapter
