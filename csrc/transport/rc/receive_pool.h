// SPDX-License-Identifier: Apache-2.0
// The receive requests of all queue pairs: buffers in the device's shared receive queue, as many as
// the peers together have credits for.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "transport/rc/block_pool.h"
#include "transport/rdma.h"

namespace rocecoll {

class ReceivePool {
 public:
  static constexpr size_t kBufferBytes = 4096;  // a frame and its stream header

  ReceivePool(RdmaDevice& device, BlockPool& blocks) : device_(device), blocks_(blocks) {}
  // The device's receive queue must be gone or empty by then: with the device, see RcTransport.
  ~ReceivePool() = default;
  ReceivePool(const ReceivePool&) = delete;
  ReceivePool& operator=(const ReceivePool&) = delete;

  // Makes sure that `count` more messages find a buffer, until release(count).
  Status reserve(uint32_t count);
  void release(uint32_t count);
  std::span<const std::byte> received(uint64_t id, size_t bytes) const;
  // The buffer of a completed request may be received into again.
  void repost(uint64_t id);

 private:
  void post(uint64_t id);

  RdmaDevice& device_;
  BlockPool& blocks_;
  std::vector<BlockPool::Block> buffers_;  // by the id of their request
  std::vector<uint64_t> refused_;          // reposted, but the queue did not take them
  uint64_t reserved_ = 0;
};

}  // namespace rocecoll
