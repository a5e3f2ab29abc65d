// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/verbs_device.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "transport/verbs/locked_memory.h"
#include "transport/verbs/receive_list.h"
#include "transport/verbs/verbs_error.h"

namespace rocecoll {
namespace {

constexpr uint32_t kMaxSends = 128;  // for each queue pair
constexpr uint32_t kFewestSends = 32;
// Devices have about twice as many. On ConnectX they take half a MiB, however many are in use.
constexpr uint32_t kSharedReceives = 16384;
// Each receive needs a buffer, so the number is bounded by the pages that may be locked.
constexpr uint64_t kPageBytes = 4096;
// The share of receives in a completion queue, chosen so that neither receives nor sends run out
// first: a link has 21 receives and 128 sends.
constexpr int kReceiveShare = 8;
constexpr uint32_t kFirstQueuePairs = 16;
constexpr uint32_t kFixedQueuePairs = 512;  // if the completion queue cannot grow: 5.2 MB
// Large enough for control frames, and small enough for the device's copy to stay within a few
// cache lines.
constexpr uint32_t kMaxInlineBytes = 256;
constexpr size_t kPollBatch = 32;

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

Result<RdmaDevices> VerbsDevice::OpenAll(const RdmaOptions& options) {
  const Result<std::vector<PortChoice>> choices = VerbsPort::Choose(options);
  if (!choices.ok()) return choices.status();
  RdmaDevices devices;
  for (const PortChoice& choice : choices.value()) {
    auto device = OpenPort(options, choice);
    if (!device.ok()) return device.status();
    devices.push_back(device.take());
  }
  return devices;
}

Result<std::unique_ptr<RdmaDevice>> VerbsDevice::OpenPort(const RdmaOptions& options,
                                                          const PortChoice& choice) {
  Result<std::unique_ptr<VerbsPort>> port = VerbsPort::Open(options, choice);
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
  limits_.max_region_bytes = device.max_mr_size;
  limits_.max_registered_bytes = ReadLockedMemoryLimit().bytes;
  limits_.max_send_requests = Capped(kMaxSends, device.max_qp_wr);
  Result<std::unique_ptr<SlowCalls>> slow_calls = SlowCalls::Start();
  if (!slow_calls.ok()) return slow_calls.status();
  slow_calls_ = slow_calls.take();
  Status status = port_->watch(slow_calls_->wake_descriptor());
  if (!status.ok()) return status;
  make_receive_queue();
  status = make_completion_queue();
  return status.ok() ? grant_sends() : status;
}

// Shared receive queues are optional: some devices have none, and a few of these report it only
// here.
void VerbsDevice::make_receive_queue() {
  const ibv_device_attr& device = port_->attributes();
  if (device.max_srq > 0) {
    ibv_srq_init_attr wanted{};
    wanted.attr.max_wr = shared_receives();
    wanted.attr.max_sge = 1;
    receives_.reset(ibv_create_srq(port_->protection_domain(), &wanted));
    if (receives_ == nullptr) {
      Log(Severity::kInfo, port_->error("make a shared receive queue", errno).message() +
                               "; each queue pair gets a receive queue of its own");
    }
  }
  limits_.shared_receives = receives_ != nullptr;
  limits_.max_receive_requests = limits_.shared_receives
                                     ? shared_receives()
                                     : Capped(kMaxReceivesPerQueuePair, device.max_qp_wr);
}

uint32_t VerbsDevice::shared_receives() const {
  const ibv_device_attr& device = port_->attributes();
  const uint64_t lockable =
      std::min<uint64_t>(kSharedReceives, limits_.max_registered_bytes / kPageBytes);
  return Capped(Capped(static_cast<uint32_t>(lockable), device.max_srq_wr),
                device.max_cqe / kReceiveShare);
}

uint64_t VerbsDevice::completions_of(uint64_t queue_pairs) const {
  const uint64_t most = limits_.max_receive_requests;
  const uint64_t receives = limits_.shared_receives
                                ? std::min(most, queue_pairs * kMaxReceivesPerQueuePair)
                                : queue_pairs * most;
  return queue_pairs * limits_.max_send_requests + receives;
}

Status VerbsDevice::make_completion_queue() {
  const auto make = [this](uint32_t queue_pairs) {
    const auto entries = static_cast<uint32_t>(completions_of(queue_pairs));
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

// A queue pair must be made to find out how much a request may carry inline, and whether a queue
// pair like ours gets as many requests as the device claims.
Status VerbsDevice::grant_sends() {
  asked_inline_bytes_ = kMaxInlineBytes;
  while (true) {
    const auto made = VerbsQueuePair::Create(*port_, queues(), reserve_);
    if (made.ok()) {
      limits_.max_inline_bytes = made.value()->max_inline_bytes();
      return {};
    }
    if (asked_inline_bytes_ > 0) {
      asked_inline_bytes_ /= 2;
    } else if (limits_.max_send_requests / 2 >= kFewestSends) {
      limits_.max_send_requests /= 2;
    } else {
      return made.status();
    }
  }
}

VerbsQueuePair::Queues VerbsDevice::queues() {
  return {slow_calls_.get(),         &connects_,
          completions_.get(),        receives_.get(),
          limits_.max_send_requests, limits_.shared_receives ? 0 : limits_.max_receive_requests,
          asked_inline_bytes_};
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

// Every request may fail and then complete, so the completion queue has room for all of them.
Status VerbsDevice::reserve_completions() {
  const uint64_t queue_pairs = uint64_t{reserve_.living} + reserve_.destroyed + 1;
  const uint64_t needed = completions_of(queue_pairs);
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
  ROCECOLL_CHECK(limits_.shared_receives);
  int failed = 0;
  const size_t posted = PostReceiveLists(
      batch,
      [this](ibv_recv_wr* list, ibv_recv_wr** refused) {
        return ibv_post_srq_recv(receives_.get(), list, refused);
      },
      failed);
  if (failed != 0 && ErrorNumber(failed) != ENOMEM) {  // ENOMEM means that the queue is full
    port_->health().set_broken(port_->error("post a receive request", failed).message());
  }
  return posted;
}

size_t VerbsDevice::poll(std::span<WorkCompletion> completions) {
  slow_calls_->finish();
  std::array<ibv_wc, kPollBatch> batch;
  size_t filled = 0;
  for (; filled < completions.size() && !connects_.empty(); connects_.pop_back()) {
    completions[filled++] = connects_.back();
  }
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

bool VerbsDevice::arm() { return connects_.empty() && completions_->arm(); }

Status VerbsDevice::health() {
  port_->take_events();
  return port_->health().status();
}

}  // namespace rocecoll
