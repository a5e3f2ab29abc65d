// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/completion_queue.h"

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/random.h"

namespace rocecoll {
namespace {

// Acknowledging takes a lock in libibverbs.
constexpr unsigned kAcknowledgeEvents = 64;
constexpr size_t kSetAsideBatch = 32;

}  // namespace

Result<std::unique_ptr<CompletionQueue>> CompletionQueue::Create(VerbsPort& port,
                                                                 uint32_t entries) {
  CompletionChannelHandle channel(ibv_create_comp_channel(port.context()));
  if (channel == nullptr) return port.error("make a completion channel", errno);
  // Uses any interrupt of the device, so that one processor does not wake all processes of a host.
  const auto vectors = static_cast<uint64_t>(std::max(port.context()->num_comp_vectors, 1));
  CompletionQueueHandle queue(ibv_create_cq(port.context(), static_cast<int>(entries), nullptr,
                                            channel.get(),
                                            static_cast<int>(EntropyId() % vectors)));
  if (queue == nullptr) {
    return port.error("make a completion queue of " + std::to_string(entries) + " entries", errno);
  }
  Status status = port.watch(channel->fd);
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

bool CompletionQueue::can_grow() {
  return ibv_resize_cq(queue_.get(), static_cast<int>(entries())) == 0;
}

size_t CompletionQueue::poll(std::span<ibv_wc> completions) {
  const size_t count = std::min(early_.size() - first_early_, completions.size());
  std::copy_n(early_.begin() + static_cast<ptrdiff_t>(first_early_), count, completions.begin());
  first_early_ += count;
  if (first_early_ == early_.size()) {
    early_.clear();
    first_early_ = 0;
  }
  const auto rest = completions.subspan(count);
  if (rest.empty()) return count;
  const int polled = ibv_poll_cq(queue_.get(), static_cast<int>(rest.size()), rest.data());
  if (polled < 0) port_.health().set_broken("the completion queue cannot be read");
  return count + static_cast<size_t>(std::max(polled, 0));
}

bool CompletionQueue::arm() {
  take_channel_event();
  if (!early_.empty()) return false;
  if (!armed_) {
    if (ibv_req_notify_cq(queue_.get(), 0) != 0) {
      port_.health().set_broken("the completion queue cannot be armed");
      return false;
    }
    armed_ = true;
  }
  // A completion that came before the queue was armed raises no event.
  set_aside();
  return early_.empty();
}

void CompletionQueue::set_aside(uint32_t destroyed) {
  std::array<ibv_wc, kSetAsideBatch> batch;
  int polled = 0;
  do {
    polled = ibv_poll_cq(queue_.get(), static_cast<int>(batch.size()), batch.data());
    if (polled > 0) early_.insert(early_.end(), batch.begin(), batch.begin() + polled);
  } while (polled == static_cast<int>(batch.size()));
  if (polled < 0) port_.health().set_broken("the completion queue cannot be read");
  for (ibv_wc& completion : early_) {
    if (completion.qp_num == destroyed) completion.qp_num = kNoQueuePair;
  }
}

// There is at most one event, because arming the queue once raises one.
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
