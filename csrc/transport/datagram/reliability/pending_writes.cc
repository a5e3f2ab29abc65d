// SPDX-License-Identifier: Apache-2.0
#include "transport/datagram/reliability/pending_writes.h"

#include <algorithm>

#include "base/check.h"

namespace rocecoll {

bool PendingWrites::push(const RemoteSlice& to, LocalSlice from, uint32_t token) {
  ROCECOLL_CHECK(from.size >= 1 && from.data != nullptr);
  ROCECOLL_CHECK(to.length == from.size);
  if (writes_.size() >= max_pending_) return false;
  Write& write = writes_.push_slot();  // an earlier one's range sets keep their memory
  write.region = to.base;
  write.key = to.key;
  write.from = from;
  write.token = token;
  write.done = false;
  write.next_offset = 0;
  write.lost.clear();
  write.acknowledged.clear();
  return true;
}

PendingWrites::Chunk PendingWrites::make_chunk(uint64_t index, uint64_t offset,
                                               uint64_t length) const {
  const Write& write = writes_[index];
  ROCECOLL_CHECK(length >= 1 && offset + length <= write.from.size);
  Chunk chunk;
  chunk.write = index;
  chunk.region = write.region;
  chunk.key = write.key;
  chunk.offset = offset;
  chunk.payload = {write.from.data + offset, static_cast<size_t>(length)};
  chunk.last = write.lost.empty() && write.next_offset == write.from.size;
  return chunk;
}

PendingWrites::Chunk PendingWrites::take(size_t max_bytes) {
  ROCECOLL_CHECK(has_pending() && max_bytes >= 1);
  if (lost_writes_ > 0) {
    lost_hint_ = std::max(lost_hint_, writes_.begin_index());
    while (writes_[lost_hint_].lost.empty()) ++lost_hint_;
    Write& write = writes_[lost_hint_];
    const RangeSet::Range range = write.lost.front();
    const uint64_t length = std::min<uint64_t>(range.end - range.begin, max_bytes);
    clear_lost(write, range.begin, range.begin + length);
    return make_chunk(lost_hint_, range.begin, length);
  }
  Write& write = writes_[next_new_];
  const uint64_t index = next_new_;
  const uint64_t offset = write.next_offset;
  const uint64_t length = std::min<uint64_t>(write.from.size - offset, max_bytes);
  write.next_offset += length;
  if (write.next_offset == write.from.size) ++next_new_;
  return make_chunk(index, offset, length);
}

void PendingWrites::clear_lost(Write& write, uint64_t begin, uint64_t end) {
  if (write.lost.empty()) return;
  write.lost.erase(begin, end);
  if (!write.lost.empty()) return;
  ROCECOLL_CHECK(lost_writes_ > 0);
  --lost_writes_;
}

std::optional<uint32_t> PendingWrites::on_acknowledged(uint64_t index, uint64_t offset,
                                                       uint64_t length) {
  ROCECOLL_CHECK(index < writes_.end_index());
  if (!writes_.contains(index) || writes_[index].done) return std::nullopt;
  Write& write = writes_[index];
  ROCECOLL_CHECK(offset + length <= write.next_offset);
  write.acknowledged.insert(offset, offset + length);
  clear_lost(write, offset, offset + length);
  if (write.acknowledged.total() < write.from.size) return std::nullopt;
  ROCECOLL_CHECK(write.lost.empty());
  write.done = true;
  write.from = {};
  const uint32_t token = write.token;
  while (!writes_.empty() && writes_.front().done) writes_.pop_front();
  return token;
}

void PendingWrites::on_lost(uint64_t index, uint64_t offset, uint64_t length) {
  ROCECOLL_CHECK(index < writes_.end_index());
  if (!writes_.contains(index) || writes_[index].done) return;
  Write& write = writes_[index];
  ROCECOLL_CHECK(offset + length <= write.next_offset);
  const bool had_lost = !write.lost.empty();
  write.acknowledged.for_each_missing(
      offset, offset + length, [&](uint64_t from, uint64_t to) { write.lost.insert(from, to); });
  if (had_lost || write.lost.empty()) return;
  ++lost_writes_;
  lost_hint_ = std::min(lost_hint_, index);
}

void PendingWrites::clear() {
  while (!writes_.empty()) {
    writes_.front().from = {};
    writes_.pop_front();
  }
  next_new_ = writes_.end_index();
  lost_writes_ = 0;
  ROCECOLL_CHECK(empty() && !has_pending());
}

}  // namespace rocecoll
