// SPDX-License-Identifier: Apache-2.0
// The buffers of all messages that may come, and the receive requests that name them. Where the
// device shares a receive queue they are in that one, as many as the peers together have credits
// for. Where it does not, each queue pair has those that its own peer has credits for.
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
  // 64 MiB of all rails' together, registered as links need them: 780 links.
  static constexpr uint64_t kMaxBuffers = 16384;

  // Of one rail; the blocks are those of all.
  ReceivePool(Rails& rails, size_t rail, BlockPool& blocks)
      : device_(rails[rail]),
        rail_(rail),
        blocks_(blocks),
        most_(kMaxBuffers / rails.count()),
        shared_(device_.limits().shared_receives) {}
  // The device's receive queues must be gone or empty by then: with the device, see RcDevice.
  ~ReceivePool() = default;
  ReceivePool(const ReceivePool&) = delete;
  ReceivePool& operator=(const ReceivePool&) = delete;

  // Makes sure that `count` more messages find a buffer, until release(count).
  Status reserve(uint32_t count);
  void release(uint32_t count);
  // A new queue pair gets its requests, `count` of those reserved, and loses them before it is
  // destroyed. Nothing to do where the receive queue is shared.
  Status fill(RdmaQueuePair& queue_pair, uint32_t count);
  void empty(const RdmaQueuePair& queue_pair);

  // Lent until repost().
  std::span<const std::byte> received(uint64_t id, size_t bytes);
  // From flush() on there is room for another message of whom this one was of.
  void repost(uint64_t id);
  // The request was not served.
  void on_failed(uint64_t id);
  // The completion is of a queue pair that has been emptied since.
  void on_orphaned(uint64_t id);
  // Hands the device what has been reposted, before the peers are given credits for it.
  void flush();

 private:
  struct Buffer {
    BlockPool::Block block;
    RdmaQueuePair* queue_pair = nullptr;  // whose it is, if receive queues are not shared
    bool lent = false;
  };

  bool add_buffer();
  void make_idle(uint64_t id);
  // The oldest of `due_` for one queue; their number.
  size_t post_oldest();

  RdmaDevice& device_;
  const size_t rail_;
  BlockPool& blocks_;
  const uint64_t most_;
  const bool shared_;
  std::vector<Buffer> buffers_;  // by the id of their request
  std::vector<uint64_t> idle_;   // of no queue
  std::vector<uint64_t> due_;    // to be posted
  uint64_t reserved_ = 0;
};

}  // namespace rocecoll
