// SPDX-License-Identifier: Apache-2.0
// The tensors of one call, by the places that the engine's buffers name (staged_memory.h), and the
// copies between ranges of places and the host memory of lanes.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/operations/staged_memory.h"
#include "torch/tensors/staging_pool.h"

namespace rocecoll::torch_adapter {

class PlacedTensors {
 public:
  enum class Way : uint8_t { kIn, kOut };  // to the host, to the device

  // Places for the contiguous `tensors` of one element type, one after the other, which no other
  // tensors of the call have. Null if they have no elements.
  std::byte* place(std::span<const at::Tensor> tensors);
  bool empty() const { return pieces_.empty(); }
  // Queues the copies on the current stream. The caller keeps all memory until they are done.
  void copy(Way way, std::span<const StagedRange> ranges, const LaneMemory& memory) const;

 private:
  static constexpr uintptr_t kFirstPlace = 4096;  // no null
  struct Piece {
    std::byte* place = nullptr;
    at::Tensor tensor;  // as bytes
  };

  const Piece& piece_at(const std::byte* place) const;

  std::vector<Piece> pieces_;  // by place
  uintptr_t next_place_ = kFirstPlace;
};

}  // namespace rocecoll::torch_adapter
