// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/range_set.h"
#include "base/ring_buffer.h"

namespace rocecoll {

// Frames from send_frame() until they are acknowledged, copied into one ring of bytes. Each frame
// has a sequence number; lost ones are offered again before new ones.
class SendQueue {
 public:
  explicit SendQueue(size_t max_bytes, uint64_t first_sequence = 0)
      : max_bytes_(max_bytes), frames_(first_sequence), next_new_(first_sequence) {}

  // False: no room until earlier frames are acknowledged.
  bool push(std::span<const std::byte> frame);

  bool has_pending() const { return !lost_.empty() || next_new_ < frames_.end_index(); }
  // The sequence number to send next. Valid while has_pending().
  uint64_t next_pending() const;
  std::span<const std::byte> bytes(uint64_t sequence) const;
  void mark_sent(uint64_t sequence);

  // Of a packet that carried frames [first, first + count).
  void on_acknowledged(uint64_t first, uint64_t count);
  void on_lost(uint64_t first, uint64_t count);

  bool empty() const { return frames_.empty(); }
  uint64_t end_sequence() const { return frames_.end_index(); }
  // Forgets all frames; their numbers stay used.
  void clear();

 private:
  struct Frame {
    uint64_t position = 0;  // of its first byte; ever increasing, modulo storage_.size()
    uint32_t size = 0;
    bool acknowledged = false;
  };
  // Where a frame of `size` bytes would start, moved past the end of the storage if it would wrap.
  uint64_t place(size_t size) const;
  bool grow(size_t size);

  size_t max_bytes_;
  std::vector<std::byte> storage_;  // its size is a power of two
  RingBuffer<Frame> frames_;        // indexed by sequence number
  RangeSet lost_;                   // sequence numbers to send again
  uint64_t next_new_;
  uint64_t end_position_ = 0;
};

}  // namespace rocecoll
