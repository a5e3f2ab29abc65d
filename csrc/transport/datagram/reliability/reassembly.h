// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "base/check.h"
#include "transport/datagram/reliability/connection.h"
#include "transport/datagram/reliability/connection_event.h"
#include "transport/datagram/reliability/frame_wire.h"

namespace rocecoll {

// Puts frames back in order and together, each once. A whole frame in order is passed on where it
// lies in the datagram; only pieces, and what comes after a hole, are copied.
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
  // Appends a kFrame event for every frame that is now complete and in order. False: one is longer
  // than any may be, and nothing after it can be read. Checked: has_room().
  bool accept(const FrameField& frame, ConnectionEvents& events) {
    ROCECOLL_CHECK(!frame.bytes.empty());
    if (frame.sequence < next_) return true;
    if (frame.sequence > next_) {
      const auto [entry, is_new] = stored_.try_emplace(frame.sequence);
      if (!is_new) return true;
      entry->second = {{frame.bytes.begin(), frame.bytes.end()}, frame.ends};
      stored_bytes_ += frame.bytes.size();
      return true;
    }
    if (assembled_.empty() && frame.ends) {
      events.push_back({Event::Kind::kFrame, 0, frame.bytes, {}});
      ++next_;
    } else if (!take(frame.bytes, frame.ends, events)) {
      return false;
    }
    // A copy of this very frame cannot be stored: what is stored was ahead of next_ then and now.
    while (!stored_.empty() && stored_.begin()->first == next_) {
      const Stored stored = std::move(stored_.begin()->second);
      stored_.erase(stored_.begin());
      ROCECOLL_CHECK(stored_bytes_ >= stored.bytes.size());
      stored_bytes_ -= stored.bytes.size();
      if (!take(stored.bytes, stored.ends, events)) return false;
    }
    return true;
  }
  // All frames below it have been passed on.
  uint64_t next_sequence() const { return next_; }
  size_t stored_bytes() const { return stored_bytes_; }
  void clear() {
    stored_.clear();
    stored_bytes_ = 0;
    assembled_ = {};
  }

 private:
  struct Stored {
    std::vector<std::byte> bytes;
    bool ends = true;
  };

  // The next one, copied.
  bool take(std::span<const std::byte> bytes, bool ends, ConnectionEvents& events) {
    if (assembled_.size() + bytes.size() > Connection::kMaxFrameBytes) return false;
    assembled_.insert(assembled_.end(), bytes.begin(), bytes.end());
    ++next_;
    if (!ends) return true;
    const std::span<const std::byte> view = assembled_;  // moving a vector does not move its bytes
    events.push_back({Event::Kind::kFrame, 0, view, std::exchange(assembled_, {})});
    return true;
  }

  uint64_t next_;
  std::map<uint64_t, Stored> stored_;  // pieces too are stored under their numbers
  std::vector<std::byte> assembled_;   // of the frame of which the last piece is still to come
  size_t stored_bytes_ = 0;
};

}  // namespace rocecoll
