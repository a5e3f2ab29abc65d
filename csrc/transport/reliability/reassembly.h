// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "transport/reliability/connection_event.h"
#include "transport/reliability/frame_wire.h"

namespace rocecoll {

// Puts frames back in order, each once. A frame in order is passed on where it lies in the
// datagram; only those after a hole are copied.
class Reassembly {
 public:
  // More than a peer's whole queue of frames (ConnectionOptions::frame_queue_bytes) by default.
  static constexpr size_t kMaxStoredBytes = 1024 * 1024;
  static constexpr uint64_t kMaxAhead = 1u << 16;

  explicit Reassembly(uint64_t first_sequence = 0) : next_(first_sequence) {}

  // False: these frames cannot all be kept now; drop their packet without acknowledging it.
  bool has_room(std::span<const FrameField> frames) const;
  // Appends a kFrame event for every frame that is now in order. Checked: has_room().
  void accept(const FrameField& frame, ConnectionEvents& events);
  // All frames below it have been passed on.
  uint64_t next_sequence() const { return next_; }
  size_t stored_bytes() const { return stored_bytes_; }
  void clear();

 private:
  uint64_t next_;
  std::map<uint64_t, std::vector<std::byte>> stored_;
  size_t stored_bytes_ = 0;
};

}  // namespace rocecoll
