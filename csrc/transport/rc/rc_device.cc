// SPDX-License-Identifier: Apache-2.0
#include "transport/rc/rc_device.h"

#include <algorithm>
#include <span>
#include <utility>

#include "base/check.h"

namespace rocecoll {
namespace {

// A receive queue holds a request for each message that the peers may send.
uint32_t CreditsOf(const RdmaLimits& limits, const RcOptions& options) {
  const uint32_t others = RcStream::ReceivesFor(0);
  const uint32_t receives = std::min(limits.max_receive_requests, kMaxReceivesPerQueuePair);
  return std::min(options.credits, std::max(receives, others) - others);
}

}  // namespace

RcDevice::RcDevice(std::unique_ptr<RdmaDevice> device, const RcOptions& options)
    : options_(options),
      device_(std::move(device)),
      credits_(CreditsOf(device_->limits(), options)),
      memory_(*device_),
      receives_(*device_, memory_.frames()) {
  ROCECOLL_CHECK(options.queue_pairs_per_connection >= 1 &&
                 options.queue_pairs_per_connection <= FastPath::kMaxStreams &&
                 options.credits >= 1 && options.credits < UINT16_MAX);
}

std::unique_ptr<RcStream> RcDevice::make_stream(Traffic& traffic) {
  return std::make_unique<RcStream>(*device_, memory_, stats_, traffic, options_);
}

// One completion after the other: what a link makes of it may be the end of the next one's queue
// pair.
bool RcDevice::poll(FastEvent& event) {
  if (completed_ == 0) completed_ = device_->poll(batch_);
  while (next_ < completed_) {
    const WorkCompletion& completion = batch_[next_++];
    const auto found = by_queue_pair_.find(completion.queue_pair);
    if (found != by_queue_pair_.end()) {
      event = found->second->on_completion(completion);
      return true;
    }
    // Of a queue pair that is gone.
    const bool received = completion.kind == WorkCompletion::Kind::kReceive ||
                          completion.kind == WorkCompletion::Kind::kReceiveImmediate;
    if (received) receives_.on_orphaned(completion.id);
  }
  next_ = completed_ = 0;
  receives_.flush();
  return false;
}

void RcDevice::remove(const RcStream& stream) {
  by_queue_pair_.erase(stream.number());
  for (WorkCompletion& completion : std::span(batch_).subspan(next_, completed_ - next_)) {
    if (completion.queue_pair == stream.number()) completion.queue_pair = kNoQueuePair;
  }
  receives_.empty(stream.queue_pair());
}

void RcDevice::wait_for_memory(RcPath& path) {
  if (std::ranges::find(short_of_memory_, &path) == short_of_memory_.end()) {
    short_of_memory_.push_back(&path);
  }
}

void RcDevice::on_memory_back() {
  for (RcPath* path : std::exchange(short_of_memory_, {})) path->link->mark_dirty();
}

FastPath* RcDevice::release(const FastLease& lease) {
  receives_.repost(lease.id);
  const auto found = by_queue_pair_.find(static_cast<uint32_t>(lease.stream));
  if (found == by_queue_pair_.end()) return nullptr;
  found->second->on_reposted(static_cast<uint32_t>(lease.stream));
  return found->second;
}

std::unique_ptr<DualTransport> MakeRcTransport(std::unique_ptr<Transport> control,
                                               std::unique_ptr<RdmaDevice> device,
                                               const RcOptions& options,
                                               const std::string& no_device) {
  std::unique_ptr<FastDevice> fast;
  if (device != nullptr) fast = std::make_unique<RcDevice>(std::move(device), options);
  return std::make_unique<DualTransport>(std::move(control), std::move(fast), options,
                                         no_device.empty() ? "no RDMA device" : no_device);
}

}  // namespace rocecoll
