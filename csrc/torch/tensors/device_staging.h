// SPDX-License-Identifier: Apache-2.0
// Tensors of an accelerator, of whatever kind torch has a runtime for: images of them in pinned
// host memory are the engine's buffers, and the engine moves these lane by lane (staged_memory.h).
//
// The streams that carry the copies (copy_streams.h) do not wait for streams of the caller: one
// call whose input is still being computed would hold up the copies of all others. Instead a lane
// is queued once the event that the caller's stream recorded at the call has passed. All of it
// happens on a thread of the device's own (device_copies.h).
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/status.h"
#include "engine/operations/operation.h"
#include "engine/operations/staged_memory.h"
#include "torch/tensors/device_copies.h"

namespace rocecoll::torch_adapter {

// Whether tensors there can be staged.
bool IsAccelerator(c10::Device device);

// One backend's streams for copies. Thread safe.
class StreamsByDevice {
 public:
  std::shared_ptr<CopyStreams> of(c10::Device device);

 private:
  std::mutex mutex_;
  // A process has accelerators of one type.
  std::map<c10::DeviceIndex, std::shared_ptr<CopyStreams>> streams_;
};

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
  // Host memory for the contiguous `tensors` of one element type, one after the other. Null if they
  // have no elements.
  std::byte* make_image(std::span<const at::Tensor> tensors);
  // Notes how far the caller's current stream is and gives each operation its staged memory. After
  // the last image. Never waits for the device.
  void start(StreamsByDevice& streams, std::vector<OperationSpec>& specs);
  // Since start().
  DeviceCopies& copies() const { return *copies_; }

 private:
  class StagedOperation;

  const c10::Device device_;
  std::vector<DeviceCopies::Piece> pieces_;  // until the start
  std::shared_ptr<DeviceCopies> copies_;
  std::vector<std::unique_ptr<StagedOperation>> operations_;
};

}  // namespace rocecoll::torch_adapter
