// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/completion_queue.h"

#include <algorithm>
#include <cerrno>

namespace rocecoll {
namespace {

// Acknowledging takes a lock in libibverbs.
constexpr unsigned kAcknowledgeEvents = 64;

}  // namespace

Result<std::unique_ptr<CompletionQueue>> CompletionQueue::Create(VerbsPort& port,
                                                                 uint32_t entries) {
  CompletionChannelHandle channel(ibv_create_comp_channel(port.context()));
  if (channel == nullptr) return port.error("make a completion channel", errno);
  CompletionQueueHandle queue(
      ibv_create_cq(port.context(), static_cast<int>(entries), nullptr, channel.get(), 0));
  if (queue == nullptr) {
    return port.error("make a completion queue of " + std::to_string(entries) + " entries", errno);
  }
  Status status = port.watch(*channel);
  if (!status.ok()) return status;
  return std::unique_ptr<CompletionQueue>(
      new CompletionQueue(port, std::move(channel), std::move(queue)));
}

CompletionQueue::~CompletionQueue() {
  take_channel_event();
  // Destroying the queue waits until all its events are acknowledged.
  if (unacknowledged_ > 0) ibv_ack_cq_events(queue_.get(), unacknowledged_);
}

Status CompletionQueue::grow(uint32_t entries) {
  const int failed = ibv_resize_cq(queue_.get(), static_cast<int>(entries));
  if (failed == 0) return {};
  return port_.error("enlarge a completion queue to " + std::to_string(entries) + " entries",
                     failed);
}

size_t CompletionQueue::poll(std::span<ibv_wc> completions) {
  size_t count = std::min(end_early_ - first_early_, completions.size());
  std::copy_n(early_.begin() + static_cast<ptrdiff_t>(first_early_), count, completions.begin());
  first_early_ += count;
  const auto rest = completions.subspan(count);
  if (rest.empty()) return count;
  const int polled = ibv_poll_cq(queue_.get(), static_cast<int>(rest.size()), rest.data());
  if (polled < 0) port_.health().set_broken("the completion queue cannot be read");
  return count + static_cast<size_t>(std::max(polled, 0));
}

bool CompletionQueue::arm() {
  take_channel_event();
  if (first_early_ < end_early_) return false;
  if (!armed_) {
    if (ibv_req_notify_cq(queue_.get(), 0) != 0) {
      port_.health().set_broken("the completion queue cannot be armed");
      return false;
    }
    armed_ = true;
  }
  // What came before the queue was armed raises no event.
  first_early_ = end_early_ = 0;
  end_early_ = poll(early_);
  return end_early_ == 0;
}

// One at most: arming the queue once raises one.
void CompletionQueue::take_channel_event() {
  ibv_cq* queue = nullptr;
  void* context = nullptr;
  if (!armed_ || ibv_get_cq_event(channel_.get(), &queue, &context) != 0) return;
  armed_ = false;
  if (++unacknowledged_ < kAcknowledgeEvents) return;
  ibv_ack_cq_events(queue_.get(), unacknowledged_);
  unacknowledged_ = 0;
}

}  // namespace rocecoll
