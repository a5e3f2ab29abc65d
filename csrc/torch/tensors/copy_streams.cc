// SPDX-License-Identifier: Apache-2.0
#include "torch/tensors/copy_streams.h"

#include <c10/core/impl/VirtualGuardImpl.h>

namespace rocecoll::torch_adapter {
namespace {

// High priority: copies are short, and other ranks wait for them.
constexpr int kHighPriority = -1;

// A stream of our own, where the device can make one: behind another's kernels copies would wait.
// CUDA's takes one out of the same pool as everybody's all the same, in turn, of 32 for each
// priority; torch has no generic call for more. NCCL's are of normal priority unless it is told
// otherwise, so that ours meet those only that programs have asked for with high priority.
c10::Stream MakeStream(c10::Device device) {
  const c10::impl::VirtualGuardImpl guard(device.type());
  try {
    return guard.getNewStream(device, kHighPriority);
  } catch (const c10::Error&) {  // a device that only has a pool
    return guard.getStreamFromGlobalPool(device, /*isHighPriority=*/true);
  }
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
