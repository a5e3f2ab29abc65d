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

// Reassembles frames and delivers each of them once, in order. A whole frame that arrives in order
// is passed on in place, in its datagram; only pieces, and frames after a hole, are copied.
class Reassembly {
 public:
  // More than the default queue of a peer's frames (ConnectionOptions::frame_queue_bytes).
  static constexpr size_t kMaxStoredBytes = 1024 * 1024;
  static constexpr uint64_t kMaxAhead = 1u << 16;

  explicit Reassembly(uint64_t first_sequence = 0) : next_(first_sequence) {}

  // False: not all of these frames can be kept now. Drop their packet without acknowledging it.
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
  // Appends a kFrame event for every frame that is now complete and in order. False: a frame
  // exceeds the largest allowed size, and nothing after it can be read. Checked: has_room().
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
    // This frame itself cannot be among the stored ones: these were, and are, ahead of next_.
    while (!stored_.empty() && stored_.begin()->first == next_) {
      const Stored stored = std::move(stored_.begin()->second);
      stored_.erase(stored_.begin());
      ROCECOLL_CHECK(stored_bytes_ >= stored.bytes.size());
      stored_bytes_ -= stored.bytes.size();
      if (!take(stored.bytes, stored.ends, events)) return false;
    }
    return true;
  }
  // All frames below this have been passed on.
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

  // Takes a copy of the next piece.
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
  std::map<uint64_t, Stored> stored_;  // by sequence number; pieces have their own numbers
  std::vector<std::byte> assembled_;   // the beginning of a frame whose last piece is missing
  size_t stored_bytes_ = 0;
};

}  // namespace rocecoll
