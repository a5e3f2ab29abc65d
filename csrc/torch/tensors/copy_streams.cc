// SPDX-License-Identifier: Apache-2.0
#include "torch/tensors/copy_streams.h"

#include <c10/core/impl/VirtualGuardImpl.h>

namespace rocecoll::torch_adapter {
namespace {

// High priority: copies are short, and other ranks wait for them.
c10::Stream MakeStream(c10::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device, true);
}

}  // namespace

CopyStreams::CopyStreams(c10::Device device)
    : in(MakeStream(device)), out(MakeStream(device)), idle(MakeStream(device)), device_(device) {}

std::optional<c10::Stream> CopyStreams::take_late() {
  for (Late& late : late_) {
    if (late.taken) continue;
    if (!late.stream) late.stream = MakeStream(device_);
    late.taken = true;
    return late.stream;
  }
  return std::nullopt;
}

void CopyStreams::give_back(const c10::Stream& stream) {
  for (Late& late : late_) {
    if (late.stream == stream) late.taken = false;
  }
}

}  // namespace rocecoll::torch_adapter
