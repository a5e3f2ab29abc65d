// SPDX-License-Identifier: Apache-2.0
#include "transport/reliability/reassembly.h"

#include <utility>

#include "base/check.h"

namespace rocecoll {

bool Reassembly::has_room(std::span<const FrameField> frames) const {
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

void Reassembly::accept(const FrameField& frame, ConnectionEvents& events) {
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

void Reassembly::clear() {
  stored_.clear();
  stored_bytes_ = 0;
}

}  // namespace rocecoll
