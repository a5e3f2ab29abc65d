// SPDX-License-Identifier: Apache-2.0
#include "transport/fast_paths/rc/send_queue.h"

#include <algorithm>
#include <string>

#include "base/check.h"

namespace rocecoll {

Status SendQueue::prepare(uint32_t most) {
  ROCECOLL_CHECK(!prepared());
  auto made = device_.create_queue_pair();
  if (!made.ok()) return made.status();
  queue_pair_ = made.take();
  max_requests_ = std::min(device_.limits().max_send_requests, most);
  // Fewer would fill up before one asks for a completion.
  if (max_requests_ < kSignalEvery + kSpareRequests) {
    queue_pair_.reset();
    return Status(StatusCode::kUnsupported, device_.description() + " has queue pairs for only " +
                                                std::to_string(max_requests_) + " send requests");
  }
  batch_.clear();
  newest_ = done_ = last_ = 0;
  unsignaled_ = 0;
  connected_ = failed_ = drained_ = false;
  return {};
}

// The last request shows that everything before it has been flushed: those that had succeeded
// before the failure, unsignaled, never complete.
void SendQueue::fail() {
  if (!prepared() || failed_) return;
  failed_ = true;
  batch_.clear();
  queue_pair_->fail();
  if (!connected_) {
    drained_ = true;
    return;
  }
  SendRequest last;
  last.id = last_ = ++newest_;
  last.signaled = true;
  last.inlined = true;
  if (queue_pair_->post({&last, 1}) == 0) drained_ = true;  // what is left ends with destroy()
}

void SendQueue::destroy() {
  if (!prepared()) return;
  if (!failed_) queue_pair_->fail();
  queue_pair_.reset();
  failed_ = true;
}

uint32_t SendQueue::room() const {
  const auto outstanding = static_cast<uint32_t>(newest_ - done_);
  ROCECOLL_CHECK(outstanding <= max_requests_);
  return max_requests_ - outstanding;
}

SendRequest& SendQueue::add(SendRequest::Kind kind, std::span<const std::byte> payload,
                            uint32_t local_key) {
  SendRequest request;
  request.kind = kind;
  request.payload = payload;
  request.local_key = local_key;
  request.id = ++newest_;
  request.inlined = payload.size() <= device_.limits().max_inline_bytes;
  request.signaled = ++unsignaled_ >= kSignalEvery;
  if (request.signaled) unsignaled_ = 0;
  ++stats_.packets_sent;
  stats_.bytes_sent += payload.size();
  traffic_.sent(payload.size());
  batch_.push_back(request);
  return batch_.back();
}

void SendQueue::signal_newest() {
  batch_.back().signaled = true;
  unsignaled_ = 0;
}

Status SendQueue::post() {
  if (batch_.empty()) return {};
  const size_t posted = queue_pair_->post(batch_);
  const bool all = posted == batch_.size();
  batch_.clear();
  if (all) return {};
  return Status(StatusCode::kNetwork, device_.description() + " does not take send requests");
}

bool SendQueue::on_sent(const WorkCompletion& completion) {
  if (failed_) {
    if (completion.id >= last_) drained_ = true;
    return false;
  }
  if (completion.status != CompletionStatus::kSuccess) return false;  // the owner fails us
  ROCECOLL_CHECK(completion.id > done_ && completion.id <= newest_);
  done_ = completion.id;
  return true;
}

}  // namespace rocecoll
