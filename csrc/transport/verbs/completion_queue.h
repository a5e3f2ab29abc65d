// SPDX-License-Identifier: Apache-2.0
// A completion queue with the channel that wakes a sleeping thread when completions arrive.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "transport/rdma.h"
#include "transport/verbs/handles.h"
#include "transport/verbs/verbs_port.h"

namespace rocecoll {

class CompletionQueue {
 public:
  // Events become visible through the port's wait handle.
  static Result<std::unique_ptr<CompletionQueue>> Create(VerbsPort& port, uint32_t entries);
  ~CompletionQueue();
  CompletionQueue(const CompletionQueue&) = delete;
  CompletionQueue& operator=(const CompletionQueue&) = delete;

  ibv_cq* get() const { return queue_.get(); }
  // If more completions than this are outstanding, they are lost and the queue fails. The owner
  // bounds what it posts.
  uint32_t entries() const { return static_cast<uint32_t>(queue_->cqe); }
  Status grow(uint32_t entries);
  // Some devices cannot resize a queue.
  bool can_grow();

  size_t poll(std::span<ibv_wc> completions);
  // False: call poll() first. True: no completion is waiting, and the channel reports the next one.
  bool arm();
  // Takes over what the queue holds, for poll() to hand out. Completions of the queue pair with the
  // number `destroyed` no longer name a queue pair.
  void set_aside(uint32_t destroyed = kNoQueuePair);

 private:
  CompletionQueue(VerbsPort& port, CompletionChannelHandle channel, CompletionQueueHandle queue)
      : port_(port), channel_(std::move(channel)), queue_(std::move(queue)) {}
  void take_channel_event();

  VerbsPort& port_;
  CompletionChannelHandle channel_;
  CompletionQueueHandle queue_;
  bool armed_ = false;
  unsigned unacknowledged_ = 0;
  // Completions set aside and not handed out yet, from first_early_ on. There are never more of
  // them than outstanding requests.
  std::vector<ibv_wc> early_;
  size_t first_early_ = 0;
};

}  // namespace rocecoll
