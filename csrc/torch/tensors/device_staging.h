// SPDX-License-Identifier: Apache-2.0
// Tensors of an accelerator, of whatever kind torch has a runtime for. The engine's buffers only
// name places of them; it moves them lane by lane (staged_memory.h) through pinned host memory that
// all groups share (staging_pool.h).
//
// The streams that carry the copies (copy_streams.h) do not wait for streams of the caller: one
// call whose input is still being computed would hold up the copies of all others. Instead a lane
// is queued once the event that the caller's stream recorded at the call has passed. All of it
// happens on a thread of the device's own (device_copies.h).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "engine/operations/operation.h"
#include "engine/operations/staged_memory.h"
#include "torch/tensors/device_copies.h"
#include "torch/tensors/staging_devices.h"

namespace rocecoll::torch_adapter {

// Whether tensors there can be staged.
bool IsAccelerator(c10::Device device);

// All tensors of one call. The owner of its operations keeps it until they are complete; then what
// copies still use is kept until they are done.
class DeviceStaging {
 public:
  // Throws while the caller's current stream is being captured into a graph.
  explicit DeviceStaging(c10::Device device);
  ~DeviceStaging();
  DeviceStaging(const DeviceStaging&) = delete;
  DeviceStaging& operator=(const DeviceStaging&) = delete;

  c10::Device device() const { return device_; }
  // See PlacedTensors.
  std::byte* place(std::span<const at::Tensor> tensors) { return tensors_.place(tensors); }
  // Notes how far the caller's current stream is and gives each operation its staged memory. After
  // the last place() was given. Waits for the device at most where StagingDevices::of() does.
  void start(StagingDevices& devices, std::vector<OperationSpec>& specs);
  // Since start().
  DeviceCopies& copies() const { return *copies_; }

 private:
  class StagedOperation;

  const c10::Device device_;
  PlacedTensors tensors_;  // until the start
  std::shared_ptr<DeviceCopies> copies_;
  std::vector<std::unique_ptr<StagedOperation>> operations_;
};

}  // namespace rocecoll::torch_adapter
