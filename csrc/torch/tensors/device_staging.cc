// SPDX-License-Identifier: Apache-2.0
#include "torch/tensors/device_staging.h"

#include <ATen/DeviceAccelerator.h>
#include <ATen/EmptyTensor.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <string>
#include <utility>

#include "torch/interface/host_allocator.h"
#include "torch/process/plain_dispatch.h"

namespace rocecoll::torch_adapter {
namespace {

// What torch throws, as the engine takes it. Nothing may be thrown under the progress lock.
template <typename Call>
auto Guarded(const char* what, const Call& call) -> decltype(call()) {
  const auto failed = [what](const std::string& why) {
    return Status(StatusCode::kDevice, std::string("rocecoll: ") + what + ": " + why);
  };
  try {
    return call();
  } catch (const c10::Error& error) {
    return failed(error.what_without_backtrace());
  } catch (const std::exception& error) {
    return failed(error.what());
  }
}

// The tensor's memory as bytes. Neither autograd nor version counters see what is copied there, as
// with memory of the CPU. view() would mind the strides that a single element happens to have.
at::Tensor Bytes(const at::Tensor& tensor) {
  return tensor.as_strided({tensor.numel()}, {1}).view(at::kByte);
}

}  // namespace

bool IsAccelerator(c10::Device device) { return at::accelerator::isAccelerator(device.type()); }

CopyStreams::Pair CopyStreams::of(c10::Device device) {
  std::lock_guard lock(mutex_);
  const auto found = pairs_.find(device.index());
  if (found != pairs_.end()) return found->second;
  // High priority: copies are short, and other ranks wait for them.
  const c10::impl::VirtualGuardImpl guard(device.type());
  const Pair pair{guard.getStreamFromGlobalPool(device, true),
                  guard.getStreamFromGlobalPool(device, true)};
  pairs_.emplace(device.index(), pair);
  return pair;
}

// One operation's lanes. Called under the progress lock.
class DeviceStaging::StagedOperation final : public StagedMemory {
 public:
  explicit StagedOperation(DeviceStaging& staging) : staging_(staging) {}

  Status fetch(uint32_t /*lane*/, std::span<const HostRange> input) override {
    return Guarded("copying tensors to the host", [&] {
      lanes_.push_back({{input.begin(), input.end()}, std::nullopt});
      if (staging_.ready()) queue_copies();
      return Status();
    });
  }

  Result<bool> fetched(uint32_t /*lane*/) override {
    return Guarded("copying tensors to the host", [&]() -> Result<bool> {
      if (!staging_.ready()) return false;
      queue_copies();
      if (!lanes_.front().arrived->query()) return false;
      lanes_.pop_front();
      --queued_;
      return true;
    });
  }

  // After a failure copies that nobody asked about any more may be under way.
  bool fetching() const { return queued_ > 0; }

  Status store(uint32_t /*lane*/, std::span<const HostRange> output) override {
    return Guarded("copying results to the device", [&] {
      staging_.copy_out(output);
      return Status();
    });
  }

 private:
  struct Lane {
    std::vector<HostRange> ranges;
    std::optional<c10::Event> arrived;  // once its copies are queued
  };

  void queue_copies() {
    for (; queued_ < lanes_.size(); ++queued_) {
      Lane& lane = lanes_[queued_];
      staging_.copy_in(lane.ranges);
      lane.arrived.emplace(staging_.device_.type());
      lane.arrived->record(staging_.streams_->in);
    }
  }

  DeviceStaging& staging_;
  std::deque<Lane> lanes_;  // asked for and not yet there, the first `queued_` of them on their way
  size_t queued_ = 0;
};

DeviceStaging::DeviceStaging(c10::Device device) : device_(device) {}

DeviceStaging::~DeviceStaging() {
  if (!streams_) return;  // refused before anything was queued
  const Status status = Guarded("releasing memory", [&] {
    record_uses();
    return Status();
  });
  // Memory that may still be copied to is rather lost than given out again.
  if (!status.ok()) new std::vector<Piece>(std::move(pieces_));
}

std::byte* DeviceStaging::make_image(std::span<const at::Tensor> tensors) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
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

void DeviceStaging::start(CopyStreams& streams, std::vector<OperationSpec>& specs) {
  std::sort(pieces_.begin(), pieces_.end(),
            [](const Piece& left, const Piece& right) { return left.host < right.host; });
  called_.emplace(device_.type());
  called_->record(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
  streams_ = streams.of(device_);
  for (OperationSpec& spec : specs) {
    operations_.push_back(std::make_unique<StagedOperation>(*this));
    spec.staged = operations_.back().get();
  }
}

bool DeviceStaging::ready() {
  if (!ready_) ready_ = called_->query();
  return ready_;
}

void DeviceStaging::copy_in(std::span<const HostRange> ranges) {
  const c10::StreamGuard guard(streams_->in);
  for_each_piece(ranges, [](Piece&, at::Tensor image, const at::Tensor& tensor) {
    image.copy_(tensor, /*non_blocking=*/true);
  });
}

void DeviceStaging::copy_out(std::span<const HostRange> ranges) {
  // Only where this rank reads nothing: the call's inputs came after the event. The stream waits
  // because the output may still be in use.
  if (!ready()) called_->block(streams_->out);
  const c10::StreamGuard guard(streams_->out);
  for_each_piece(ranges, [](Piece& piece, const at::Tensor& image, at::Tensor tensor) {
    piece.stored = true;
    tensor.copy_(image, /*non_blocking=*/true);
  });
}

template <typename Copy>
void DeviceStaging::for_each_piece(std::span<const HostRange> ranges, const Copy& copy) {
  const PlainDispatch plain;
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  for (HostRange range : ranges) {
    auto piece = std::upper_bound(
        pieces_.begin(), pieces_.end(), range.data,
        [](const std::byte* data, const Piece& other) { return data < other.host; });
    ROCECOLL_CHECK(piece != pieces_.begin());
    for (--piece; range.bytes > 0; ++piece) {  // a range may run over several tensors of a list
      ROCECOLL_CHECK(piece != pieces_.end() && range.data >= piece->host);
      const auto offset = static_cast<int64_t>(range.data - piece->host);
      const int64_t length =
          std::min(static_cast<int64_t>(range.bytes), piece->tensor.numel() - offset);
      ROCECOLL_CHECK(length > 0);
      copy(*piece, piece->image.narrow(0, offset, length), piece->tensor.narrow(0, offset, length));
      range.data += length;
      range.bytes -= static_cast<size_t>(length);
    }
  }
}

void DeviceStaging::record_uses() {
  const bool fetching = std::any_of(operations_.begin(), operations_.end(),
                                    [](const auto& operation) { return operation->fetching(); });
  const c10::impl::VirtualGuardImpl guard(device_.type());
  for (const Piece& piece : pieces_) {
    const c10::DataPtr& image = piece.image.storage().data_ptr();
    const c10::DataPtr& tensor = piece.tensor.storage().data_ptr();
    if (fetching) {
      RecordUse(device_.type(), image, streams_->in);
      guard.recordDataPtrOnStream(tensor, streams_->in);
    }
    if (piece.stored) {
      RecordUse(device_.type(), image, streams_->out);
      guard.recordDataPtrOnStream(tensor, streams_->out);
    }
  }
}

void DeviceStaging::keep_until_copied(const at::Tensor& tensor) const {
  c10::impl::VirtualGuardImpl(device_.type())
      .recordDataPtrOnStream(tensor.storage().data_ptr(), streams_->out);
}

}  // namespace rocecoll::torch_adapter
