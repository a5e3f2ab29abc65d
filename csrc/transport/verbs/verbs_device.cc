// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/verbs_device.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/check.h"
#include "transport/verbs/verbs_error.h"

namespace rocecoll {
namespace {

constexpr uint32_t kMaxSends = 128;      // of a queue pair
constexpr uint32_t kMaxReceives = 4096;  // of all; 128 peers with 32 credits each
constexpr uint32_t kFirstQueuePairs = 16;
constexpr uint32_t kFixedQueuePairs = 512;  // where the completion queue cannot grow: 4.5 MB
// Control frames fit, and the device's copy stays within a few cache lines.
constexpr uint32_t kMaxInlineBytes = 256;
constexpr size_t kListRequests = 32;
constexpr size_t kPollBatch = 32;
// The device says which completions are receives, but not of failed ones.
constexpr uint64_t kReceiveBit = kRequestIdLimit;

uint32_t Capped(uint32_t wanted, int limit) {
  return std::min(wanted, static_cast<uint32_t>(std::max(limit, 1)));
}

WorkCompletion Translate(const ibv_wc& completion) {
  WorkCompletion result;
  result.status = ToCompletionStatus(completion.status);
  result.text = ToText(completion.status);
  result.queue_pair = completion.qp_num;
  result.id = completion.wr_id & ~kReceiveBit;
  if ((completion.wr_id & kReceiveBit) != 0) result.kind = WorkCompletion::Kind::kReceive;
  if (completion.status != IBV_WC_SUCCESS) return result;
  if (completion.opcode == IBV_WC_RECV_RDMA_WITH_IMM) {
    result.kind = WorkCompletion::Kind::kReceiveImmediate;
    result.immediate = ntohl(completion.imm_data);
  }
  if (result.kind != WorkCompletion::Kind::kSend) result.bytes = completion.byte_len;
  return result;
}

}  // namespace

Result<std::unique_ptr<RdmaDevice>> VerbsDevice::Open(const RdmaOptions& options) {
  Result<std::unique_ptr<VerbsPort>> port = VerbsPort::Open(options);
  if (!port.ok()) return port.status();
  std::unique_ptr<VerbsDevice> device(new VerbsDevice(port.take()));
  Status status = device->prepare();
  if (!status.ok()) return status;
  return std::unique_ptr<RdmaDevice>(std::move(device));
}

VerbsDevice::VerbsDevice(std::unique_ptr<VerbsPort> port)
    : port_(std::move(port)), description_(ToText(port_->choice())) {}

Status VerbsDevice::prepare() {
  const ibv_device_attr& device = port_->attributes();
  limits_.mtu_bytes = port_->choice().mtu_bytes;
  limits_.max_message_bytes = port_->max_message_bytes();
  limits_.max_send_requests = Capped(kMaxSends, device.max_qp_wr);
  limits_.max_receive_requests = Capped(kMaxReceives, device.max_srq_wr);

  ibv_srq_init_attr wanted{};
  wanted.attr.max_wr = limits_.max_receive_requests;
  wanted.attr.max_sge = 1;
  receives_.reset(ibv_create_srq(port_->protection_domain(), &wanted));
  if (receives_ == nullptr) return port_->error("make a shared receive queue", errno);
  Status status = make_completion_queue();
  return status.ok() ? grant_sends() : status;
}

Status VerbsDevice::make_completion_queue() {
  const auto make = [this](uint32_t queue_pairs) {
    const uint32_t entries = limits_.max_receive_requests + queue_pairs * limits_.max_send_requests;
    return CompletionQueue::Create(*port_, Capped(entries, port_->attributes().max_cqe));
  };
  auto made = make(kFirstQueuePairs);
  if (!made.ok()) return made.status();
  completions_ = made.take();
  if (completions_->can_grow()) return {};
  auto larger = make(kFixedQueuePairs);
  if (larger.ok()) completions_ = larger.take();
  return {};
}

// How much a request may carry inline is known only from a queue pair that was made.
Status VerbsDevice::grant_sends() {
  for (asked_inline_bytes_ = kMaxInlineBytes;; asked_inline_bytes_ /= 2) {
    const auto made = VerbsQueuePair::Create(*port_, queues(), reserve_);
    if (made.ok()) {
      limits_.max_inline_bytes = made.value()->max_inline_bytes();
      return {};
    }
    if (asked_inline_bytes_ == 0) return made.status();
  }
}

VerbsQueuePair::Queues VerbsDevice::queues() const {
  return {completions_.get(), receives_.get(), limits_.max_send_requests, asked_inline_bytes_};
}

Result<MemoryRegion> VerbsDevice::register_memory(std::span<std::byte> memory,
                                                  RemoteAccess access) {
  const int remote = access == RemoteAccess::kWrite ? IBV_ACCESS_REMOTE_WRITE : 0;
  const Result<ibv_mr*> region = port_->register_memory(memory, IBV_ACCESS_LOCAL_WRITE | remote);
  if (!region.ok()) return region.status();
  const ibv_mr& made = *region.value();
  return MemoryRegion{reinterpret_cast<uintptr_t>(&made), made.lkey, made.rkey};
}

void VerbsDevice::deregister(const MemoryRegion& region) {
  port_->deregister(reinterpret_cast<ibv_mr*>(region.handle));
}

Result<std::unique_ptr<RdmaQueuePair>> VerbsDevice::create_queue_pair() {
  Status status = reserve_completions();
  if (!status.ok()) return status;
  auto made = VerbsQueuePair::Create(*port_, queues(), reserve_);
  if (!made.ok()) return made.status();
  return std::unique_ptr<RdmaQueuePair>(made.take());
}

// Every request may fail, and then completes: the completion queue has room for all of them.
Status VerbsDevice::reserve_completions() {
  const uint64_t queue_pairs = uint64_t{reserve_.living} + reserve_.destroyed + 1;
  const uint64_t needed = limits_.max_receive_requests + queue_pairs * limits_.max_send_requests;
  if (needed <= completions_->entries()) return {};
  const auto limit = static_cast<uint64_t>(port_->attributes().max_cqe);
  if (needed > limit) {
    return Status(StatusCode::kNetwork, description_ + ": has no room for another queue pair: " +
                                            std::to_string(queue_pairs - 1) +
                                            " exist, and its completion queue has at "
                                            "most " +
                                            std::to_string(limit) + " entries");
  }
  return completions_->grow(static_cast<uint32_t>(std::min(needed * 2, limit)));
}

size_t VerbsDevice::post_receives(std::span<const ReceiveRequest> batch) {
  size_t posted = 0;
  while (posted < batch.size()) {
    const auto list = batch.subspan(posted, std::min(kListRequests, batch.size() - posted));
    const size_t accepted = post_receive_list(list);
    posted += accepted;
    if (accepted < list.size()) break;
  }
  return posted;
}

size_t VerbsDevice::post_receive_list(std::span<const ReceiveRequest> list) {
  std::array<ibv_recv_wr, kListRequests> requests{};
  std::array<ibv_sge, kListRequests> slices;
  for (size_t i = 0; i < list.size(); ++i) {
    ROCECOLL_CHECK(list[i].id < kRequestIdLimit);
    slices[i] = {reinterpret_cast<uintptr_t>(list[i].buffer.data()),
                 static_cast<uint32_t>(list[i].buffer.size()), list[i].local_key};
    requests[i].wr_id = list[i].id | kReceiveBit;
    requests[i].sg_list = &slices[i];
    requests[i].num_sge = list[i].buffer.empty() ? 0 : 1;
    if (i > 0) requests[i - 1].next = &requests[i];
  }
  ibv_recv_wr* refused = nullptr;
  const int failed = ibv_post_srq_recv(receives_.get(), requests.data(), &refused);
  if (failed == 0) return list.size();
  if (ErrorNumber(failed) != ENOMEM) {  // which says that the queue is full
    port_->health().set_broken(port_->error("post a receive request", failed).message());
  }
  return refused == nullptr ? 0 : static_cast<size_t>(refused - requests.data());
}

size_t VerbsDevice::poll(std::span<WorkCompletion> completions) {
  std::array<ibv_wc, kPollBatch> batch;
  size_t filled = 0;
  while (filled < completions.size()) {
    const size_t room = std::min(batch.size(), completions.size() - filled);
    const size_t count = completions_->poll(std::span(batch).first(room));
    for (size_t i = 0; i < count; ++i) completions[filled++] = Translate(batch[i]);
    if (count == room) continue;
    reserve_.destroyed = 0;  // the queue was empty a moment ago
    break;
  }
  return filled;
}

bool VerbsDevice::arm() { return completions_->arm(); }

Status VerbsDevice::health() {
  port_->take_events();
  return port_->health().status();
}

}  // namespace rocecoll
