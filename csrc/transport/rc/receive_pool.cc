// SPDX-License-Identifier: Apache-2.0
#include "transport/rc/receive_pool.h"

#include "base/check.h"

namespace rocecoll {

Status ReceivePool::reserve(uint32_t count) {
  if (reserved_ + count > device_.limits().max_receive_requests) {
    return Status(StatusCode::kNetwork, "the shared receive queue of " + device_.description() +
                                            " is full with " + std::to_string(reserved_) +
                                            " requests");
  }
  while (buffers_.size() < reserved_ + count) {
    const BlockPool::Block block = blocks_.take(kBufferBytes);
    if (!block) return blocks_.refusal();
    buffers_.push_back(block);
    post(buffers_.size() - 1);
  }
  reserved_ += count;
  return {};
}

void ReceivePool::release(uint32_t count) {
  ROCECOLL_CHECK(reserved_ >= count);
  reserved_ -= count;
}

std::span<const std::byte> ReceivePool::received(uint64_t id, size_t bytes) const {
  ROCECOLL_CHECK(id < buffers_.size() && bytes <= kBufferBytes);
  return {buffers_[id].data, bytes};
}

void ReceivePool::repost(uint64_t id) {
  ROCECOLL_CHECK(id < buffers_.size());
  post(id);
}

void ReceivePool::post(uint64_t id) {
  refused_.push_back(id);
  while (!refused_.empty()) {
    const BlockPool::Block& buffer = buffers_[refused_.back()];
    const ReceiveRequest request{refused_.back(), {buffer.data, kBufferBytes}, buffer.local_key};
    if (device_.post_receives({&request, 1}) == 0) return;
    refused_.pop_back();
  }
}

}  // namespace rocecoll
