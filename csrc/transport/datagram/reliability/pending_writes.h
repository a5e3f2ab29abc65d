// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/range_set.h"
#include "base/ring_buffer.h"
#include "transport/transport.h"

namespace rocecoll {

// Writes from write() until every byte is acknowledged. The bytes stay in the caller's memory, from
// which retransmissions read them again. Lost parts are sent before new ones.
class PendingWrites {
 public:
  // One packet's part of a write.
  struct Chunk {
    uint64_t write = 0;  // names it in on_acknowledged() and on_lost()
    uint64_t region = 0;
    uint64_t key = 0;
    uint64_t offset = 0;
    std::span<const std::byte> payload;
    bool last = false;  // no further part of this write has to be sent now
  };

  explicit PendingWrites(uint32_t max_pending, uint64_t first_write = 0)
      : max_pending_(max_pending), writes_(first_write), next_new_(first_write) {}

  // False: full.
  bool push(const RemoteSlice& to, LocalSlice from, uint32_t token);
  bool empty() const { return writes_.empty(); }
  bool has_pending() const { return lost_writes_ > 0 || next_new_ < writes_.end_index(); }
  // Takes the next part, at most `max_bytes`. Checked: has_pending().
  Chunk take(size_t max_bytes);
  // Returns the write's token when this was its last unacknowledged part.
  std::optional<uint32_t> on_acknowledged(uint64_t write, uint64_t offset, uint64_t length);
  void on_lost(uint64_t write, uint64_t offset, uint64_t length);
  // Ends the loan of all memory.
  void clear();

 private:
  struct Write {
    uint64_t region = 0;
    uint64_t key = 0;
    LocalSlice from;
    uint32_t token = 0;
    bool done = false;
    uint64_t next_offset = 0;  // first byte never sent
    RangeSet lost;             // to send again
    RangeSet acknowledged;
  };
  Chunk make_chunk(uint64_t index, uint64_t offset, uint64_t length) const;
  void clear_lost(Write& write, uint64_t begin, uint64_t end);

  uint32_t max_pending_;
  RingBuffer<Write> writes_;
  uint64_t next_new_;         // first write with bytes never sent
  uint64_t lost_writes_ = 0;  // writes whose `lost` is not empty
  uint64_t lost_hint_ = 0;    // none of these is below
};

}  // namespace rocecoll
