// SPDX-License-Identifier: Apache-2.0
#include "transport/datagram/reliability/send_queue.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/arithmetic.h"
#include "base/check.h"

namespace rocecoll {
namespace {

constexpr size_t kFirstStorageBytes = 2048;
// Bounds the index, too: pieces of one byte must not pile up in it.
constexpr size_t kMinBytesPerPiece = 16;

}  // namespace

uint64_t SendQueue::place(size_t size) const {
  const uint64_t offset = end_position_ & (storage_bytes_ - 1);
  return offset + size <= storage_bytes_ ? end_position_
                                         : end_position_ + (storage_bytes_ - offset);
}

bool SendQueue::push(const FrameBytes& frame, size_t max_piece_bytes) {
  ROCECOLL_CHECK(!frame.empty() && max_piece_bytes > 0);
  const size_t count = CeilDivide(frame.size(), max_piece_bytes);
  if ((pieces_.size() + count) * kMinBytesPerPiece > max_bytes_) return false;
  for (;;) {
    if (frame.size() <= storage_bytes_) {
      const uint64_t oldest = pieces_.empty() ? end_position_ : pieces_.front().position;
      const uint64_t position = place(frame.size());
      // An empty ring may start anywhere: padding before its first frame is unused.
      const uint64_t used_from = pieces_.empty() ? position : oldest;
      if (position + frame.size() - used_from <= storage_bytes_) {
        frame.copy_to(&storage_[position & (storage_bytes_ - 1)]);
        end_position_ = position + frame.size();
        for (uint64_t begin = position; begin < end_position_; begin += max_piece_bytes) {
          const uint64_t size = std::min<uint64_t>(max_piece_bytes, end_position_ - begin);
          pieces_.push_back({.position = begin,
                             .size = static_cast<uint32_t>(size),
                             .ends_frame = begin + size == end_position_});
        }
        return true;
      }
    }
    if (!grow(frame.size())) return false;
  }
}

bool SendQueue::grow(size_t size) {
  const size_t limit = std::bit_floor(max_bytes_);
  const size_t wanted = std::max({kFirstStorageBytes, storage_bytes_ * 2, std::bit_ceil(size)});
  if (wanted > limit) return false;
  auto larger = std::make_unique_for_overwrite<std::byte[]>(wanted);
  uint64_t position = 0;
  for (uint64_t i = pieces_.begin_index(); i != pieces_.end_index(); ++i) {
    const auto from = bytes(i);
    std::memcpy(&larger[position], from.data(), from.size());
    pieces_[i].position = position;
    position += from.size();
  }
  ROCECOLL_CHECK(position <= wanted);
  storage_ = std::move(larger);
  storage_bytes_ = wanted;
  end_position_ = position;
  return true;
}

uint64_t SendQueue::next_pending() const {
  ROCECOLL_CHECK(has_pending());
  return lost_.empty() ? next_new_ : lost_.front().begin;
}

std::span<const std::byte> SendQueue::bytes(uint64_t sequence) const {
  const Piece& piece = pieces_[sequence];
  const size_t offset = piece.position & (storage_bytes_ - 1);
  ROCECOLL_CHECK(offset + piece.size <= storage_bytes_);
  return {&storage_[offset], piece.size};
}

void SendQueue::mark_sent(uint64_t sequence) {
  ROCECOLL_CHECK(has_pending() && sequence == next_pending());
  if (sequence == next_new_) {
    ++next_new_;
  } else {
    lost_.erase(sequence, sequence + 1);
  }
}

void SendQueue::on_acknowledged(uint64_t first, uint64_t count) {
  ROCECOLL_CHECK(first + count <= next_new_);
  const uint64_t begin = std::max(first, pieces_.begin_index());
  for (uint64_t i = begin; i < first + count; ++i) pieces_[i].acknowledged = true;
  lost_.erase(first, first + count);
  while (!pieces_.empty() && pieces_.front().acknowledged) pieces_.pop_front();
  if (pieces_.empty()) shrink();
}

// Keeps a link that has once sent large frames from holding their memory for life.
void SendQueue::shrink() {
  if (storage_bytes_ <= kFirstStorageBytes) return;
  storage_.reset();
  storage_bytes_ = 0;
  end_position_ = 0;
}

void SendQueue::on_lost(uint64_t first, uint64_t count) {
  ROCECOLL_CHECK(first + count <= next_new_);
  const uint64_t begin = std::max(first, pieces_.begin_index());
  for (uint64_t i = begin; i < first + count; ++i) {
    if (!pieces_[i].acknowledged) lost_.insert(i, i + 1);
  }
}

void SendQueue::clear() {
  pieces_.clear();
  lost_.clear();
  next_new_ = pieces_.end_index();
  shrink();
  ROCECOLL_CHECK(empty() && !has_pending());
}

}  // namespace rocecoll
