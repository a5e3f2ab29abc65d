// SPDX-License-Identifier: Apache-2.0
// Tensors of an accelerator, of whatever kind torch has a runtime for: images of them in pinned
// host memory are the engine's buffers, and the engine moves these lane by lane (staged_memory.h).
//
// Two streams a device and backend carry the copies, one in, one out, so that lanes overlap in both
// directions. Neither ever waits for a stream of the caller where that can be avoided: one call
// whose input is still being computed would hold up the copies of all others. Instead a lane is
// queued once the event that the caller's stream recorded at the call has passed.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "engine/operations/operation.h"
#include "engine/operations/staged_memory.h"

namespace rocecoll::torch_adapter {

// Whether tensors there can be staged.
bool IsAccelerator(c10::Device device);

// One backend's streams for copies. Thread safe.
class CopyStreams {
 public:
  struct Pair {
    c10::Stream in;
    c10::Stream out;
  };
  Pair of(c10::Device device);

 private:
  std::mutex mutex_;
  std::map<c10::DeviceIndex, Pair> pairs_;  // a process has accelerators of one type
};

// All tensors of one call. The owner of its operations keeps it until they are complete.
class DeviceStaging {
 public:
  explicit DeviceStaging(c10::Device device);
  // Hands what copies may still use to the allocators' care: neither the tensors' memory nor the
  // images are given out again before the streams are done with them.
  ~DeviceStaging();
  DeviceStaging(const DeviceStaging&) = delete;
  DeviceStaging& operator=(const DeviceStaging&) = delete;

  c10::Device device() const { return device_; }
  // Host memory for the contiguous `tensors` of one element type, one after the other. Null if they
  // have no elements.
  std::byte* make_image(std::span<const at::Tensor> tensors);
  // Notes how far the caller's current stream is and gives each operation its staged memory. After
  // the last image. Never waits for the device.
  void start(CopyStreams& streams, std::vector<OperationSpec>& specs);
  // What is queued there once the operations are complete comes after every copy to the device.
  c10::Stream result_stream() const { return streams_->out; }
  // For a tensor that something else queued on that stream uses.
  void keep_until_copied(const at::Tensor& tensor) const;

 private:
  class StagedOperation;
  struct Piece {
    std::byte* host = nullptr;  // where it lies in the image
    at::Tensor image;           // as bytes
    at::Tensor tensor;          // as bytes
    bool stored = false;
  };

  // Whether the caller's stream has come to the point of the call.
  bool ready();
  void copy_in(std::span<const HostRange> ranges);
  void copy_out(std::span<const HostRange> ranges);
  template <typename Copy>
  void for_each_piece(std::span<const HostRange> ranges, const Copy& copy);
  void record_uses();

  const c10::Device device_;
  std::vector<Piece> pieces_;  // by host address once started
  std::optional<CopyStreams::Pair> streams_;
  std::optional<c10::Event> called_;
  bool ready_ = false;
  std::vector<std::unique_ptr<StagedOperation>> operations_;
};

}  // namespace rocecoll::torch_adapter
