// SPDX-License-Identifier: Apache-2.0
#include "torch/tensors/device_staging.h"

#include <ATen/DeviceAccelerator.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <new>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/named_status.h"
#include "torch/interface/stream_capture.h"
#include "torch/process/capture_mode.h"

namespace rocecoll::torch_adapter {
bool IsAccelerator(c10::Device device) { return at::accelerator::isAccelerator(device.type()); }

// One operation's lanes. Called under the progress lock: only leaves word with the device's thread,
// and reads what that has found out.
class DeviceStaging::StagedOperation final : public StagedMemory {
 public:
  StagedOperation(std::shared_ptr<DeviceCopies> copies, std::shared_ptr<StagingPool> pool)
      : copies_(std::move(copies)), pool_(std::move(pool)) {}

  std::span<std::byte> arena() override { return pool_->bytes(); }

  // While the input has yet to be computed, one lane is enough to hear of it: others may need the
  // memory meanwhile.
  Result<std::byte*> take(size_t bytes) override {
    if (reads_any_ && *with_memory_ > 0 && !copies_->has_come()) return nullptr;
    try {
      auto memory = pool_->take(bytes, with_memory_);
      if (memory == nullptr) return nullptr;
      lanes_.push_back(std::move(memory));
    } catch (const std::bad_alloc&) {
      return Status(StatusCode::kDevice, "this host has no " + std::to_string(bytes) +
                                             " bytes of memory for a part of the tensors of " +
                                             copies_->device.str());
    }
    return lanes_.back()->data();
  }

  // Of the lane that was the last to take memory.
  Status fetch(uint32_t /*lane*/, std::span<const StagedRange> input) override {
    reads_any_ = true;
    copies_->fetch(reads_, input, lanes_.back());
    return copies_->status();
  }

  Result<bool> fetched(uint32_t /*lane*/) override {
    if (Status status = copies_->status(); !status.ok()) return status;
    if (reads_->arrived() == taken_) return false;
    ++taken_;
    return true;
  }

  Status store(uint32_t /*lane*/, std::byte* memory, std::span<const StagedRange> output) override {
    const auto found = std::ranges::find(lanes_, memory, [](const auto& m) { return m->data(); });
    ROCECOLL_CHECK(found != lanes_.end());
    DeviceCopies::Memory its = std::move(*found);
    lanes_.erase(found);
    if (!output.empty()) copies_->store(output, std::move(its));
    return copies_->status();
  }

 private:
  const std::shared_ptr<DeviceCopies> copies_;
  const std::shared_ptr<StagingPool> pool_;
  const LaneCounter with_memory_ = std::make_shared<std::atomic<uint32_t>>(0);
  const std::shared_ptr<DeviceCopies::Reads> reads_ = std::make_shared<DeviceCopies::Reads>();
  std::vector<DeviceCopies::Memory> lanes_;  // not yet stored
  bool reads_any_ = false;
  uint32_t taken_ = 0;  // lanes that the engine knows to be there
};

DeviceStaging::DeviceStaging(c10::Device device) : device_(device) {
  TORCH_CHECK(
      !IsCapturing(c10::impl::VirtualGuardImpl(device.type()).getStream(device)), kNamePrefix,
      "the current stream of ", device,
      " is being captured into a graph, and this call cannot be a part of one: its tensors "
      "go over the network by way of the host, which a replay would not repeat. Nothing was "
      "sent, and the group goes on. Call it outside the capture, such as between the "
      "replays of two graphs");
}

DeviceStaging::~DeviceStaging() {
  if (copies_ != nullptr) copies_->end();
}

void DeviceStaging::start(StagingDevices& devices, std::vector<OperationSpec>& specs) {
  const auto [streams, pool] = devices.of(device_);
  copies_ = std::make_shared<DeviceCopies>(device_, streams, std::move(tensors_));
  for (OperationSpec& spec : specs) {
    operations_.push_back(std::make_unique<StagedOperation>(copies_, pool));
    spec.staged = operations_.back().get();
  }
}

}  // namespace rocecoll::torch_adapter
