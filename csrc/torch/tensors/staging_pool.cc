// SPDX-License-Identifier: Apache-2.0
#include "torch/tensors/staging_pool.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/DeviceGuard.h>

#include <bit>
#include <cstdlib>
#include <iterator>
#include <new>
#include <string>
#include <utility>

#include "base/arithmetic.h"
#include "base/check.h"
#include "base/log.h"
#include "base/per_process.h"
#include "torch/interface/host_allocator.h"
#include "torch/process/capture_mode.h"

namespace rocecoll::torch_adapter {
namespace {

// Whole pages, so that parts of all sizes fit into one another's places.
constexpr size_t kGrain = 4096;
// What operations that have some leave to those that have none, as a part of all.
constexpr size_t kReservePart = 4;

struct Pools {
  std::mutex mutex;
  std::map<c10::DeviceIndex, std::weak_ptr<StagingPool>> pools;  // all of one type
};

at::Tensor Pinned(c10::Device device, size_t bytes) {
  const c10::DeviceGuard guard(device);
  const RelaxedCapture relaxed;  // new pinned memory would end another thread's capture
  return at::detail::empty_generic({static_cast<int64_t>(bytes)}, HostAllocator(device.type()),
                                   c10::DispatchKeySet(c10::DispatchKey::CPU), at::kByte,
                                   std::nullopt);
}

}  // namespace

LaneMemory::LaneMemory(std::shared_ptr<StagingPool> pool, std::span<std::byte> bytes, bool pinned,
                       LaneCounter lanes)
    : pool_(std::move(pool)), bytes_(bytes), pinned_(pinned), lanes_(std::move(lanes)) {
  ++*lanes_;
}

LaneMemory::~LaneMemory() {
  if (pinned_) {
    pool_->give_back(bytes_);
  } else {
    std::free(bytes_.data());
  }
  --*lanes_;
}

at::Tensor LaneMemory::tensor(std::byte* begin, size_t bytes) const {
  ROCECOLL_CHECK(begin >= bytes_.data() && begin + bytes <= bytes_.data() + bytes_.size());
  const auto length = static_cast<int64_t>(bytes);
  if (pinned_) return pool_->memory_.narrow(0, begin - pool_->bytes_.data(), length);
  return at::from_blob(begin, {length}, at::dtype(at::kByte));
}

std::shared_ptr<StagingPool> StagingPool::of(c10::Device device, size_t bytes) {
  auto& all = PerProcess<Pools>::instance();
  const std::lock_guard lock(all.mutex);
  std::weak_ptr<StagingPool>& kept = all.pools[device.index()];
  if (auto pool = kept.lock()) return pool;
  auto pool = std::make_shared<StagingPool>(Pinned(device, std::bit_floor(bytes)));
  Log(Severity::kInfo, "tensors of " + device.str() + " are staged in " +
                           std::to_string(pool->bytes().size() >> 10) +
                           " KiB of pinned host memory (ROCECOLL_STAGING_BYTES)");
  kept = pool;
  return pool;
}

StagingPool::StagingPool(at::Tensor memory)
    : memory_(std::move(memory)),
      bytes_(static_cast<std::byte*>(memory_.mutable_data_ptr()),
             static_cast<size_t>(memory_.numel())),
      free_{{bytes_.data(), bytes_.size()}},
      free_bytes_(bytes_.size()) {}

std::shared_ptr<LaneMemory> StagingPool::take(size_t bytes, const LaneCounter& lanes) {
  const bool first = *lanes == 0;
  const size_t rounded = RoundUp(bytes, kGrain);
  if (const auto found = find(rounded, first ? 0 : bytes_.size() / kReservePart)) {
    return std::make_shared<LaneMemory>(shared_from_this(), *found, /*pinned=*/true, lanes);
  }
  if (!first) return nullptr;
  auto* const data = static_cast<std::byte*>(std::aligned_alloc(kGrain, rounded));
  if (data == nullptr) throw std::bad_alloc();
  const std::span heap(data, rounded);
  return std::make_shared<LaneMemory>(shared_from_this(), heap, /*pinned=*/false, lanes);
}

// The first that is large enough.
std::optional<std::span<std::byte>> StagingPool::find(size_t bytes, size_t reserve) {
  const std::lock_guard lock(mutex_);
  if (bytes + reserve > free_bytes_) return std::nullopt;
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    const auto [data, size] = *it;
    if (size < bytes) continue;
    free_.erase(it);
    if (size > bytes) free_.emplace(data + bytes, size - bytes);
    free_bytes_ -= bytes;
    return std::span(data, bytes);
  }
  return std::nullopt;
}

void StagingPool::give_back(std::span<std::byte> bytes) {
  const std::lock_guard lock(mutex_);
  free_bytes_ += bytes.size();
  auto next = free_.lower_bound(bytes.data());
  size_t size = bytes.size();
  if (next != free_.end() && bytes.data() + size == next->first) {
    size += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == bytes.data()) {
      before->second += size;
      return;
    }
  }
  free_.emplace_hint(next, bytes.data(), size);
}

}  // namespace rocecoll::torch_adapter
