// SPDX-License-Identifier: Apache-2.0
// The buffers of all messages that may come, and the receive requests that name them. If the device
// has a shared receive queue, that holds as many requests as all peers together have credits for.
// Otherwise each queue pair has the requests that its own peer has credits for.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "transport/fast_paths/rc/block_pool.h"
#include "transport/fast_paths/rc/rc_options.h"
#include "transport/fast_paths/rc/stream_header.h"
#include "transport/rdma.h"

namespace rocecoll {

class ReceivePool {
 public:
  // A frame and its stream header.
  static constexpr size_t kBufferBytes = RcOptions::kMaxFrameBytes + StreamHeader::kWireBytes;
  // 64 MiB for all rails together, enough for 780 links. They are registered as links need them.
  static constexpr uint64_t kMaxBuffers = 16384;

  // For one rail. The blocks come from the pool of all rails.
  ReceivePool(Rails& rails, size_t rail, BlockPool& blocks)
      : device_(rails[rail]),
        rail_(rail),
        blocks_(blocks),
        most_(kMaxBuffers / rails.count()),
        shared_(device_.limits().shared_receives) {}
  // The device's receive queues must be gone or empty by then. RcDevice sees to that.
  ~ReceivePool() = default;
  ReceivePool(const ReceivePool&) = delete;
  ReceivePool& operator=(const ReceivePool&) = delete;

  // Makes sure that `count` more messages find a buffer, until release(count) is called.
  Status reserve(uint32_t count);
  void release(uint32_t count);
  // fill() gives a new queue pair `count` of the requests that were reserved, and empty() takes
  // them back before it is destroyed. Neither does anything if the receive queue is shared.
  Status fill(RdmaQueuePair& queue_pair, uint32_t count);
  void empty(const RdmaQueuePair& queue_pair);

  // Lent until repost().
  std::span<const std::byte> received(uint64_t id, size_t bytes);
  // From the next flush() on the sender of this message may send another one.
  void repost(uint64_t id);
  // The request completed without a message.
  void on_failed(uint64_t id);
  // The completion belongs to a queue pair that has been emptied since.
  void on_orphaned(uint64_t id);
  // Posts the requests that repost() has been given. The peers must not get credits for them
  // before.
  void flush();

 private:
  struct Buffer {
    BlockPool::Block block;
    RdmaQueuePair* queue_pair = nullptr;  // the owner, if receive queues are not shared
    bool lent = false;
  };

  bool add_buffer();
  void make_idle(uint64_t id);
  // Posts the oldest of `due_` as long as they are for one queue. Returns their number.
  size_t post_oldest();

  RdmaDevice& device_;
  const size_t rail_;
  BlockPool& blocks_;
  const uint64_t most_;
  const bool shared_;
  std::vector<Buffer> buffers_;  // by the id of their request
  std::vector<uint64_t> idle_;   // in no queue
  std::vector<uint64_t> due_;    // to be posted
  uint64_t reserved_ = 0;
};

}  // namespace rocecoll
