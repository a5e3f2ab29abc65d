// SPDX-License-Identifier: Apache-2.0
#include "torch/tensors/device_staging.h"

#include <ATen/DeviceAccelerator.h>
#include <ATen/EmptyTensor.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <utility>

#include "torch/interface/host_allocator.h"
#include "torch/interface/stream_capture.h"
#include "torch/process/capture_mode.h"

namespace rocecoll::torch_adapter {
namespace {

// The tensor's memory as bytes. Neither autograd nor version counters see what is copied there, as
// with memory of the CPU. view() would mind the strides that a single element happens to have.
at::Tensor Bytes(const at::Tensor& tensor) {
  return tensor.as_strided({tensor.numel()}, {1}).view(at::kByte);
}

}  // namespace

bool IsAccelerator(c10::Device device) { return at::accelerator::isAccelerator(device.type()); }

std::shared_ptr<CopyStreams> StreamsByDevice::of(c10::Device device) {
  std::lock_guard lock(mutex_);
  std::shared_ptr<CopyStreams>& streams = streams_[device.index()];
  if (streams == nullptr) streams = std::make_shared<CopyStreams>(device);
  return streams;
}

// One operation's lanes. Called under the progress lock: only leaves word with the device's thread,
// and reads what that has found out.
class DeviceStaging::StagedOperation final : public StagedMemory {
 public:
  explicit StagedOperation(std::shared_ptr<DeviceCopies> copies) : copies_(std::move(copies)) {}

  Status fetch(uint32_t /*lane*/, std::span<const HostRange> input) override {
    copies_->fetch(reads_, input);
    return copies_->status();
  }

  Result<bool> fetched(uint32_t /*lane*/) override {
    if (Status status = copies_->status(); !status.ok()) return status;
    if (reads_->arrived() == taken_) return false;
    ++taken_;
    return true;
  }

  Status store(uint32_t /*lane*/, std::span<const HostRange> output) override {
    copies_->store(output);
    return copies_->status();
  }

 private:
  const std::shared_ptr<DeviceCopies> copies_;
  const std::shared_ptr<DeviceCopies::Reads> reads_ = std::make_shared<DeviceCopies::Reads>();
  uint32_t taken_ = 0;  // lanes that the engine knows to be there
};

DeviceStaging::DeviceStaging(c10::Device device) : device_(device) {
  TORCH_CHECK(
      !IsCapturing(c10::impl::VirtualGuardImpl(device.type()).getStream(device)),
      "rocecoll: the current stream of ", device,
      " is being captured into a graph, and this call cannot be a part of one: its tensors "
      "go over the network by way of the host, which a replay would not repeat. Nothing was "
      "sent, and the group goes on. Call it outside the capture, such as between the "
      "replays of two graphs");
}

DeviceStaging::~DeviceStaging() {
  if (copies_ != nullptr) copies_->end();
}

std::byte* DeviceStaging::make_image(std::span<const at::Tensor> tensors) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const RelaxedCapture relaxed;  // new pinned memory would end another thread's capture
  int64_t bytes = 0;
  for (const at::Tensor& tensor : tensors) bytes += static_cast<int64_t>(tensor.nbytes());
  if (bytes == 0) return nullptr;
  at::Tensor image = at::detail::empty_generic({bytes}, HostAllocator(device_.type()),
                                               c10::DispatchKeySet(c10::DispatchKey::CPU),
                                               at::kByte, std::nullopt);
  auto* const base = static_cast<std::byte*>(image.mutable_data_ptr());
  int64_t offset = 0;
  for (const at::Tensor& tensor : tensors) {
    const auto length = static_cast<int64_t>(tensor.nbytes());
    if (length == 0) continue;
    pieces_.push_back({base + offset, image.narrow(0, offset, length), Bytes(tensor)});
    offset += length;
  }
  return base;
}

void DeviceStaging::start(StreamsByDevice& streams, std::vector<OperationSpec>& specs) {
  copies_ = std::make_shared<DeviceCopies>(device_, streams.of(device_), std::move(pieces_));
  for (OperationSpec& spec : specs) {
    operations_.push_back(std::make_unique<StagedOperation>(copies_));
    spec.staged = operations_.back().get();
  }
}

}  // namespace rocecoll::torch_adapter
