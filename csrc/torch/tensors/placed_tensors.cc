// SPDX-License-Identifier: Apache-2.0
#include "torch/tensors/placed_tensors.h"

#include <ATen/core/LegacyTypeDispatch.h>

#include <algorithm>
#include <iterator>

#include "base/check.h"
#include "torch/process/plain_dispatch.h"

namespace rocecoll::torch_adapter {
namespace {

// The tensor's memory as bytes. Neither autograd nor version counters see what is copied there, as
// with memory of the CPU. view() would mind the strides that a single element happens to have.
at::Tensor Bytes(const at::Tensor& tensor) {
  return tensor.as_strided({tensor.numel()}, {1}).view(at::kByte);
}

// Whether the second one lies right behind the first, as the parts of one tensor do.
bool Follows(const at::Tensor& first, const at::Tensor& second) {
  return first.storage().is_alias_of(second.storage()) &&
         first.storage_offset() + first.numel() == second.storage_offset();
}

// What a lane copies, in as few copies as its ranges allow: rows of one size at one distance, as
// the blocks of one tensor are, go in one copy of two dimensions.
struct CopyBlock {
  std::byte* place = nullptr;  // of the first row
  std::byte* host = nullptr;   // rows lie one behind the other
  size_t row_bytes = 0;
  size_t rows = 1;
  size_t stride = 0;  // of places, where there are several rows

  std::byte* end() const { return place + (rows - 1) * stride + row_bytes; }
};

// Fewer rows are copied one by one, as a device has to gather those of a block first.
constexpr size_t kLeastRows = 3;

std::vector<CopyBlock> CopyBlocks(std::span<const StagedRange> ranges) {
  std::vector<CopyBlock> blocks;
  for (size_t i = 0; i < ranges.size();) {
    const StagedRange& first = ranges[i];
    CopyBlock block{first.place, first.host, first.bytes};
    size_t rows = 1;
    if (i + 1 < ranges.size() && ranges[i + 1].place >= first.place + first.bytes) {
      block.stride = static_cast<size_t>(ranges[i + 1].place - first.place);
      while (i + rows < ranges.size() && ranges[i + rows].bytes == first.bytes &&
             ranges[i + rows].place == first.place + rows * block.stride &&
             ranges[i + rows].host == first.host + rows * first.bytes) {
        ++rows;
      }
    }
    if (rows < kLeastRows) rows = 1;
    block.rows = rows;
    blocks.push_back(block);
    i += rows;
  }
  return blocks;
}

}  // namespace

std::byte* PlacedTensors::place(std::span<const at::Tensor> tensors) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const uintptr_t first = next_place_;
  for (const at::Tensor& tensor : tensors) {
    if (tensor.nbytes() == 0) continue;
    const at::Tensor bytes = Bytes(tensor);
    if (next_place_ > first && Follows(pieces_.back().tensor, bytes)) {
      at::Tensor& whole = pieces_.back().tensor;
      whole = whole.as_strided({whole.numel() + bytes.numel()}, {1}, whole.storage_offset());
    } else {
      pieces_.push_back({reinterpret_cast<std::byte*>(next_place_), bytes});
    }
    next_place_ += tensor.nbytes();
  }
  if (next_place_ == first) return nullptr;
  next_place_ += kFirstPlace;  // no range may run from one buffer into the next
  return reinterpret_cast<std::byte*>(first);
}

const PlacedTensors::Piece& PlacedTensors::piece_at(const std::byte* place) const {
  const auto behind = std::ranges::upper_bound(pieces_, place, {}, &Piece::place);
  ROCECOLL_CHECK(behind != pieces_.begin());
  return *std::prev(behind);
}

void PlacedTensors::copy(Way way, std::span<const StagedRange> ranges,
                         const LaneMemory& memory) const {
  const PlainDispatch plain;
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const auto copy_part = [way](at::Tensor host, at::Tensor tensor) {
    if (way == Way::kIn) {
      host.copy_(tensor, /*non_blocking=*/true);
    } else {
      tensor.copy_(host, /*non_blocking=*/true);
    }
  };
  const auto copy_row = [&](std::byte* place, std::byte* host, size_t bytes) {
    while (bytes > 0) {  // a range may run over several tensors of a list
      const Piece& piece = piece_at(place);
      const auto offset = place - piece.place;
      const int64_t length = std::min(static_cast<int64_t>(bytes), piece.tensor.numel() - offset);
      ROCECOLL_CHECK(length > 0);
      copy_part(memory.tensor(host, length), piece.tensor.narrow(0, offset, length));
      place += length;
      host += length;
      bytes -= static_cast<size_t>(length);
    }
  };
  for (const CopyBlock& block : CopyBlocks(ranges)) {
    const Piece& piece = piece_at(block.place);
    const bool of_one_tensor = block.end() <= piece.place + piece.tensor.numel();
    if (block.rows == 1 || !of_one_tensor) {
      for (size_t row = 0; row < block.rows; ++row) {
        copy_row(block.place + row * block.stride, block.host + row * block.row_bytes,
                 block.row_bytes);
      }
      continue;
    }
    const auto rows = static_cast<int64_t>(block.rows);
    const auto columns = static_cast<int64_t>(block.row_bytes);
    copy_part(memory.tensor(block.host, block.rows * block.row_bytes).view({rows, columns}),
              piece.tensor.as_strided({rows, columns}, {static_cast<int64_t>(block.stride), 1},
                                      piece.tensor.storage_offset() + (block.place - piece.place)));
  }
}

}  // namespace rocecoll::torch_adapter
