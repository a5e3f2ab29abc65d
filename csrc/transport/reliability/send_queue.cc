// SPDX-License-Identifier: Apache-2.0
#include "transport/reliability/send_queue.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"

namespace rocecoll {
namespace {

constexpr size_t kFirstStorageBytes = 2048;
// Frames of one byte must not pile up without bound in the index either.
constexpr size_t kMinBytesPerFrame = 16;

}  // namespace

uint64_t SendQueue::place(size_t size) const {
  const uint64_t offset = end_position_ & (storage_.size() - 1);
  return offset + size <= storage_.size() ? end_position_
                                          : end_position_ + (storage_.size() - offset);
}

bool SendQueue::push(std::span<const std::byte> frame) {
  ROCECOLL_CHECK(!frame.empty());
  if ((frames_.size() + 1) * kMinBytesPerFrame > max_bytes_) return false;
  for (;;) {
    if (!storage_.empty() && frame.size() <= storage_.size()) {
      const uint64_t oldest = frames_.empty() ? end_position_ : frames_.front().position;
      const uint64_t position = place(frame.size());
      // An empty ring may start anywhere: padding before its first frame is nobody's.
      const uint64_t used_from = frames_.empty() ? position : oldest;
      if (position + frame.size() - used_from <= storage_.size()) {
        std::memcpy(&storage_[position & (storage_.size() - 1)], frame.data(), frame.size());
        frames_.push_back({position, static_cast<uint32_t>(frame.size()), false});
        end_position_ = position + frame.size();
        return true;
      }
    }
    if (!grow(frame.size())) return false;
  }
}

bool SendQueue::grow(size_t size) {
  const size_t limit = std::bit_floor(max_bytes_);
  const size_t wanted = std::max({kFirstStorageBytes, storage_.size() * 2, std::bit_ceil(size)});
  if (wanted > limit) return false;
  std::vector<std::byte> larger(wanted);
  uint64_t position = 0;
  for (uint64_t i = frames_.begin_index(); i != frames_.end_index(); ++i) {
    const auto from = bytes(i);
    std::memcpy(&larger[position], from.data(), from.size());
    frames_[i].position = position;
    position += from.size();
  }
  ROCECOLL_CHECK(position <= larger.size());
  storage_ = std::move(larger);
  end_position_ = position;
  return true;
}

uint64_t SendQueue::next_pending() const {
  ROCECOLL_CHECK(has_pending());
  return lost_.empty() ? next_new_ : lost_.front().begin;
}

std::span<const std::byte> SendQueue::bytes(uint64_t sequence) const {
  const Frame& frame = frames_[sequence];
  const size_t offset = frame.position & (storage_.size() - 1);
  ROCECOLL_CHECK(offset + frame.size <= storage_.size());
  return std::span(storage_).subspan(offset, frame.size);
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
  const uint64_t begin = std::max(first, frames_.begin_index());
  for (uint64_t i = begin; i < first + count; ++i) frames_[i].acknowledged = true;
  lost_.erase(first, first + count);
  while (!frames_.empty() && frames_.front().acknowledged) frames_.pop_front();
}

void SendQueue::on_lost(uint64_t first, uint64_t count) {
  ROCECOLL_CHECK(first + count <= next_new_);
  const uint64_t begin = std::max(first, frames_.begin_index());
  for (uint64_t i = begin; i < first + count; ++i) {
    if (!frames_[i].acknowledged) lost_.insert(i, i + 1);
  }
}

void SendQueue::clear() {
  frames_.clear();
  lost_.clear();
  next_new_ = frames_.end_index();
  ROCECOLL_CHECK(empty() && !has_pending());
}

}  // namespace rocecoll
