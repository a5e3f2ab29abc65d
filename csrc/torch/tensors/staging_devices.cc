// SPDX-License-Identifier: Apache-2.0
#include "torch/tensors/staging_devices.h"

namespace rocecoll::torch_adapter {

StagingDevices::Means StagingDevices::of(c10::Device device) {
  const std::lock_guard lock(mutex_);
  Means& means = means_[device.index()];
  if (means.pool == nullptr) means.pool = StagingPool::of(device, pool_bytes_);
  if (means.streams == nullptr) means.streams = std::make_shared<CopyStreams>(device);
  return means;
}

}  // namespace rocecoll::torch_adapter
