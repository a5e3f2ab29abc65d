// SPDX-License-Identifier: Apache-2.0
// Registered memory in blocks whose sizes are powers of two, for frames and for copies of small
// slices. The memory stays registered for the life of the pool: registering costs more than copying
// a block.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

#include "transport/fast_paths/rc/rails.h"
#include "transport/rdma.h"

namespace rocecoll {

// Registered memory begins on a page boundary, because devices pin whole pages.
inline constexpr std::align_val_t kPage{4096};

class BlockPool {
 public:
  static constexpr int kSmallestShift = 12;
  static constexpr int kLargestShift = 18;  // 256 KiB: about where registering beats copying
  static constexpr size_t kLargestBytes = size_t{1} << kLargestShift;

  struct Block {
    std::byte* data = nullptr;  // null: none
    size_t size = 0;
    RailRegion region;  // the registration that it is a part of
    explicit operator bool() const { return data != nullptr; }
  };

  BlockPool(Rails& rails, RemoteAccess access, size_t limit_bytes)
      : rails_(rails), access_(access), limit_bytes_(limit_bytes) {}
  ~BlockPool();
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  // A block of at least `bytes` (1 .. kLargestBytes). It is empty when the limit is reached or the
  // system refuses; refusal() then says why.
  Block take(size_t bytes);
  void give_back(const Block& block);
  const Status& refusal() const { return refusal_; }
  size_t taken() const { return taken_; }

 private:
  static constexpr size_t kSlabBytes = size_t{1} << 20;
  struct Slab {
    std::byte* memory = nullptr;
    RailRegion region;
  };

  bool add_slab();

  Rails& rails_;
  const RemoteAccess access_;
  const size_t limit_bytes_;
  std::vector<Slab> slabs_;
  size_t slab_used_ = kSlabBytes;  // bytes of the newest slab
  std::array<std::vector<Block>, kLargestShift - kSmallestShift + 1> free_;
  size_t taken_ = 0;
  Status refusal_;
};

}  // namespace rocecoll
