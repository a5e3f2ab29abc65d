// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/range_set.h"
#include "base/ring_buffer.h"
#include "transport/frame_bytes.h"

namespace rocecoll {

// Frames from send_frame() until they are acknowledged, copied into one ring of bytes. They are
// sent whole or in pieces, each of which has a sequence number. Lost pieces are sent before new
// ones.
class SendQueue {
 public:
  explicit SendQueue(size_t max_bytes, uint64_t first_sequence = 0)
      : max_bytes_(max_bytes), pieces_(first_sequence), next_new_(first_sequence) {}

  // False: no room until earlier frames are acknowledged.
  bool push(const FrameBytes& frame, size_t max_piece_bytes);

  // Pieces that have never been sent.
  uint64_t unsent() const { return pieces_.end_index() - next_new_; }
  bool has_pending() const { return !lost_.empty() || next_new_ < pieces_.end_index(); }
  // The sequence number to send next. Valid while has_pending().
  uint64_t next_pending() const;
  std::span<const std::byte> bytes(uint64_t sequence) const;
  bool ends_frame(uint64_t sequence) const { return pieces_[sequence].ends_frame; }
  void mark_sent(uint64_t sequence);

  // The fate of a packet that carried pieces [first, first + count).
  void on_acknowledged(uint64_t first, uint64_t count);
  void on_lost(uint64_t first, uint64_t count);

  bool empty() const { return pieces_.empty(); }
  uint64_t end_sequence() const { return pieces_.end_index(); }
  // Forgets all frames; their numbers are not reused.
  void clear();

 private:
  struct Piece {
    uint64_t position = 0;  // of its first byte; only increases; modulo storage_bytes_ in the ring
    uint32_t size = 0;
    bool ends_frame = true;
    bool acknowledged = false;
  };
  // Where a frame of `size` bytes would start: at the next start of the storage if it would wrap.
  uint64_t place(size_t size) const;
  bool grow(size_t size);
  void shrink();

  size_t max_bytes_;
  std::unique_ptr<std::byte[]> storage_;
  size_t storage_bytes_ = 0;  // a power of two, or zero
  RingBuffer<Piece> pieces_;  // indexed by sequence number
  RangeSet lost_;             // sequence numbers to send again
  uint64_t next_new_;
  uint64_t end_position_ = 0;
};

}  // namespace rocecoll
