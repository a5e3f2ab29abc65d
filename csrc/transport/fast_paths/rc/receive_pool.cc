// SPDX-License-Identifier: Apache-2.0
#include "transport/fast_paths/rc/receive_pool.h"

#include <algorithm>
#include <array>
#include <string>

#include "base/check.h"

namespace rocecoll {
namespace {

constexpr size_t kListRequests = 32;  // handed to the device in one call

}  // namespace

bool ReceivePool::add_buffer() {
  const BlockPool::Block block = blocks_.take(kBufferBytes);
  if (!block) return false;
  buffers_.push_back({block});
  return true;
}

Status ReceivePool::reserve(uint32_t count) {
  const uint64_t limit =
      shared_ ? std::min<uint64_t>(most_, device_.limits().max_receive_requests) : most_;
  if (reserved_ + count > limit) {
    return Status(StatusCode::kNetwork, std::to_string(reserved_) + " of " + std::to_string(limit) +
                                            " receive requests of " + device_.description() +
                                            " are in use");
  }
  while (buffers_.size() < reserved_ + count) {
    if (!add_buffer()) return blocks_.refusal();
    if (shared_) {
      repost(buffers_.size() - 1);
    } else {
      idle_.push_back(buffers_.size() - 1);
    }
  }
  flush();
  reserved_ += count;
  return {};
}

void ReceivePool::release(uint32_t count) {
  ROCECOLL_CHECK(reserved_ >= count);
  reserved_ -= count;
}

Status ReceivePool::fill(RdmaQueuePair& queue_pair, uint32_t count) {
  if (shared_) return {};
  // Some buffers that were reserved may hold messages of an earlier queue pair that are still lent.
  while (idle_.size() < count) {
    if (!add_buffer()) return blocks_.refusal();
    idle_.push_back(buffers_.size() - 1);
  }
  for (uint32_t i = 0; i < count; ++i) {
    buffers_[idle_.back()].queue_pair = &queue_pair;
    repost(idle_.back());
    idle_.pop_back();
  }
  flush();
  return {};
}

void ReceivePool::empty(const RdmaQueuePair& queue_pair) {
  if (shared_) return;
  std::erase_if(due_, [&](uint64_t id) { return buffers_[id].queue_pair == &queue_pair; });
  for (uint64_t id = 0; id < buffers_.size(); ++id) {
    Buffer& buffer = buffers_[id];
    if (buffer.queue_pair != &queue_pair) continue;
    buffer.queue_pair = nullptr;
    if (!buffer.lent) idle_.push_back(id);
  }
}

std::span<const std::byte> ReceivePool::received(uint64_t id, size_t bytes) {
  ROCECOLL_CHECK(id < buffers_.size() && bytes <= kBufferBytes);
  buffers_[id].lent = true;
  return {buffers_[id].block.data, bytes};
}

void ReceivePool::repost(uint64_t id) {
  ROCECOLL_CHECK(id < buffers_.size());
  Buffer& buffer = buffers_[id];
  buffer.lent = false;
  (shared_ || buffer.queue_pair != nullptr ? due_ : idle_).push_back(id);
}

void ReceivePool::make_idle(uint64_t id) {
  buffers_[id].queue_pair = nullptr;
  idle_.push_back(id);
}

void ReceivePool::on_failed(uint64_t id) {
  ROCECOLL_CHECK(id < buffers_.size());
  if (shared_) {
    repost(id);
  } else {
    make_idle(id);  // its queue pair has failed
  }
}

void ReceivePool::on_orphaned(uint64_t id) {
  if (shared_) repost(id);
}

size_t ReceivePool::post_oldest() {
  std::array<ReceiveRequest, kListRequests> list;
  RdmaQueuePair* const queue_pair = buffers_[due_.front()].queue_pair;
  size_t count = 0;
  for (const uint64_t id : std::span(due_).first(std::min(due_.size(), list.size()))) {
    const Buffer& buffer = buffers_[id];
    if (buffer.queue_pair != queue_pair) break;
    list[count++] = {
        id, {buffer.block.data, kBufferBytes}, buffer.block.region.of[rail_].local_key};
  }
  const auto batch = std::span(list).first(count);
  return shared_ ? device_.post_receives(batch) : queue_pair->post_receives(batch);
}

void ReceivePool::flush() {
  while (!due_.empty()) {
    const size_t posted = post_oldest();
    if (posted == 0 && shared_) return;        // full, or refused: the next flush() tries again
    if (posted == 0) make_idle(due_.front());  // refused by a queue pair that has failed
    due_.erase(due_.begin(), due_.begin() + static_cast<ptrdiff_t>(std::max<size_t>(posted, 1)));
  }
}

}  // namespace rocecoll
