// SPDX-License-Identifier: Apache-2.0
// Pinned host memory of one device, allocated once and shared by all groups of the process: lanes
// of operations take parts of it for as long as their copies and the network need them.
//
// It is all that is pinned, however large tensors are and however many operations are under way,
// and nobody waits for it in vain: an operation that has no part of it gets one, or memory of the
// heap, at once. So it waits for parts of its own alone to come back, and these wait for the
// network, which moves on as every rank has a lane of every operation, or for the device. A quarter
// is left to operations that have none yet, so that messages and short calls seldom find it full.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>

namespace rocecoll::torch_adapter {

class StagingPool;

// How many lanes of an operation have memory.
using LaneCounter = std::shared_ptr<std::atomic<uint32_t>>;

// Goes back when the last who may still use it lets go.
class LaneMemory {
 public:
  LaneMemory(std::shared_ptr<StagingPool> pool, std::span<std::byte> bytes, bool pinned,
             LaneCounter lanes);
  ~LaneMemory();
  LaneMemory(const LaneMemory&) = delete;
  LaneMemory& operator=(const LaneMemory&) = delete;

  std::byte* data() const { return bytes_.data(); }
  // Else of the heap: whoever copies there waits for the device.
  bool pinned() const { return pinned_; }
  // A part of it, as bytes.
  at::Tensor tensor(std::byte* begin, size_t bytes) const;

 private:
  const std::shared_ptr<StagingPool> pool_;
  const std::span<std::byte> bytes_;
  const bool pinned_;
  const LaneCounter lanes_;
};

class StagingPool : public std::enable_shared_from_this<StagingPool> {
 public:
  // The process's one, made where there is none: of `bytes`, or the next lower power of two, to
  // which torch's allocator would round up. It ends with those who hold it. Throws if there is no
  // memory.
  static std::shared_ptr<StagingPool> of(c10::Device device, size_t bytes);

  explicit StagingPool(at::Tensor memory);
  StagingPool(const StagingPool&) = delete;
  StagingPool& operator=(const StagingPool&) = delete;

  std::span<std::byte> bytes() const { return bytes_; }
  // Thread safe. Null: there is none now, and the operation has some. Throws std::bad_alloc.
  std::shared_ptr<LaneMemory> take(size_t bytes, const LaneCounter& lanes);

 private:
  friend LaneMemory;
  std::optional<std::span<std::byte>> find(size_t bytes, size_t reserve);
  void give_back(std::span<std::byte> bytes);

  const at::Tensor memory_;
  const std::span<std::byte> bytes_;
  std::mutex mutex_;
  std::map<std::byte*, size_t> free_;  // by address; no two of them touch
  size_t free_bytes_;
};

}  // namespace rocecoll::torch_adapter
