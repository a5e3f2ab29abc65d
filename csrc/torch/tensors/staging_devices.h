// SPDX-License-Identifier: Apache-2.0
// What one backend has of each device whose tensors it stages. Made at the first call, or before:
// pinned memory and kernels that are new have CUDA wait for the device, which in the middle of
// training costs more than when a group is made.
#pragma once

#include <c10/core/Device.h>

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>

#include "torch/tensors/copy_streams.h"
#include "torch/tensors/staging_pool.h"

namespace rocecoll::torch_adapter {

// Thread safe.
class StagingDevices {
 public:
  struct Means {
    std::shared_ptr<CopyStreams> streams;
    std::shared_ptr<StagingPool> pool;
  };

  // See StagingPool::of().
  explicit StagingDevices(size_t pool_bytes) : pool_bytes_(pool_bytes) {}
  Means of(c10::Device device);
  // Has all of it made now, and copies run once. What fails is told to the logs: the first call
  // will meet it again.
  void prepare(c10::Device device);

 private:
  const size_t pool_bytes_;
  std::mutex mutex_;
  std::map<c10::DeviceIndex, Means> means_;  // a process has accelerators of one type
};

}  // namespace rocecoll::torch_adapter
