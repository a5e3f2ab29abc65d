// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "base/check.h"
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
  bool has_room(std::span<const FrameField> frames) const {
    uint64_t in_order = next_;
    size_t to_store = 0;
    for (const FrameField& frame : frames) {
      if (frame.sequence == in_order) {
        ++in_order;
      } else if (frame.sequence > next_) {
        if (frame.sequence - next_ > kMaxAhead) return false;
        to_store += frame.bytes.size();
      }
    }
    return stored_bytes_ + to_store <= kMaxStoredBytes;
  }
  // Appends a kFrame event for every frame that is now in order. Checked: has_room().
  void accept(const FrameField& frame, ConnectionEvents& events) {
    ROCECOLL_CHECK(!frame.bytes.empty());
    if (frame.sequence < next_) return;
    if (frame.sequence > next_) {
      const auto [entry, is_new] = stored_.try_emplace(frame.sequence);
      if (!is_new) return;
      entry->second.assign(frame.bytes.begin(), frame.bytes.end());
      stored_bytes_ += frame.bytes.size();
      return;
    }
    events.push_back({Event::Kind::kFrame, 0, frame.bytes, {}});
    ++next_;
    // A copy of this very frame cannot be stored: what is stored was ahead of next_ then and now.
    while (!stored_.empty() && stored_.begin()->first == next_) {
      std::vector<std::byte> bytes = std::move(stored_.begin()->second);
      stored_.erase(stored_.begin());
      ROCECOLL_CHECK(stored_bytes_ >= bytes.size());
      stored_bytes_ -= bytes.size();
      const std::span<const std::byte> view = bytes;  // moving a vector does not move its bytes
      events.push_back({Event::Kind::kFrame, 0, view, std::move(bytes)});
      ++next_;
    }
  }
  // All frames below it have been passed on.
  uint64_t next_sequence() const { return next_; }
  size_t stored_bytes() const { return stored_bytes_; }
  void clear() {
    stored_.clear();
    stored_bytes_ = 0;
  }

 private:
  uint64_t next_;
  std::map<uint64_t, std::vector<std::byte>> stored_;
  size_t stored_bytes_ = 0;
};

}  // namespace rocecoll
