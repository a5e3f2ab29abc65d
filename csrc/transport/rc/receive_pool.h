// SPDX-License-Identifier: Apache-2.0
// The receive requests of all queue pairs: buffers in the device's shared receive queue, as many as
// the peers together have credits for.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/check.h"
#include "transport/fast_path.h"
#include "transport/rc/block_pool.h"
#include "transport/rc/rc_options.h"
#include "transport/rc/stream_header.h"
#include "transport/rdma.h"

namespace rocecoll {

class ReceivePool {
 public:
  // A frame and its stream header.
  static constexpr size_t kBufferBytes = RcOptions::kMaxFrameBytes + StreamHeader::kWireBytes;

  ReceivePool(RdmaDevice& device, BlockPool& blocks) : device_(device), blocks_(blocks) {}
  // The device's receive queue must be gone or empty by then: with the device, see RcDevice.
  ~ReceivePool() = default;
  ReceivePool(const ReceivePool&) = delete;
  ReceivePool& operator=(const ReceivePool&) = delete;

  // Makes sure that `count` more messages find a buffer, until release(count).
  Status reserve(uint32_t count) {
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
  void release(uint32_t count) {
    ROCECOLL_CHECK(reserved_ >= count);
    reserved_ -= count;
  }
  std::span<const std::byte> received(uint64_t id, size_t bytes) const {
    ROCECOLL_CHECK(id < buffers_.size() && bytes <= kBufferBytes);
    return {buffers_[id].data, bytes};
  }
  // The buffer of a completed request may be received into again.
  void repost(uint64_t id) {
    ROCECOLL_CHECK(id < buffers_.size());
    post(id);
  }

 private:
  void post(uint64_t id) {
    refused_.push_back(id);
    while (!refused_.empty()) {
      const BlockPool::Block& buffer = buffers_[refused_.back()];
      const ReceiveRequest request{refused_.back(), {buffer.data, kBufferBytes}, buffer.local_key};
      if (device_.post_receives({&request, 1}) == 0) return;
      refused_.pop_back();
    }
  }

  RdmaDevice& device_;
  BlockPool& blocks_;
  std::vector<BlockPool::Block> buffers_;  // by the id of their request
  std::vector<uint64_t> refused_;          // reposted, but the queue did not take them
  uint64_t reserved_ = 0;
};

}  // namespace rocecoll
