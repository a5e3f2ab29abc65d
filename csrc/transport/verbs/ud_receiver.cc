// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/ud_receiver.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace rocecoll {
namespace {

constexpr size_t kPollBatch = 64;
constexpr size_t kListRequests = 64;
// Makes payloads begin at a cache line.
constexpr size_t kHeadroomBytes = 64;
static_assert(kHeadroomBytes >= kRoutingHeaderBytes);

}  // namespace

std::optional<Gid> SenderOf(std::span<const std::byte, kRoutingHeaderBytes> header, bool ipv4) {
  constexpr size_t kIpv4Header = 20;
  constexpr std::byte kIpv4WithoutOptions{0x45};
  Gid gid;
  if (ipv4) {
    if (header[kIpv4Header] != kIpv4WithoutOptions) return std::nullopt;
    gid.bytes[10] = gid.bytes[11] = 0xff;
    std::memcpy(&gid.bytes[12], &header[kIpv4Header + 12], 4);
    return gid;
  }
  if (header[0] >> 4 != std::byte{6}) return std::nullopt;
  std::memcpy(gid.bytes.data(), &header[8], gid.bytes.size());
  return gid;
}

Result<std::unique_ptr<UdReceiver>> UdReceiver::Create(VerbsPort& port, size_t slots) {
  const size_t slot_bytes = kHeadroomBytes + port.choice().mtu_bytes;
  Result<RegisteredBuffer> buffer = RegisteredBuffer::Make(port, slots * slot_bytes);
  if (!buffer.ok()) return buffer.status();
  auto completions = CompletionQueue::Create(port, static_cast<uint32_t>(slots));
  if (!completions.ok()) return completions.status();
  return std::unique_ptr<UdReceiver>(
      new UdReceiver(port, buffer.take(), completions.take(), slots, slot_bytes));
}

UdReceiver::UdReceiver(VerbsPort& port, RegisteredBuffer buffer,
                       std::unique_ptr<CompletionQueue> completions, size_t slots,
                       size_t slot_bytes)
    : port_(port),
      buffer_(std::move(buffer)),
      completions_(std::move(completions)),
      slot_bytes_(slot_bytes),
      slots_(slots) {}

std::span<std::byte> UdReceiver::landing(uint64_t slot) const {
  constexpr size_t kUnused = kHeadroomBytes - kRoutingHeaderBytes;
  return buffer_.bytes().subspan(slot * slot_bytes_ + kUnused, slot_bytes_ - kUnused);
}

size_t UdReceiver::receive(ibv_qp& queue_pair, const UdPeers& peers, std::span<RxDatagram> batch) {
  std::array<ibv_wc, kPollBatch> completions;
  size_t filled = 0;
  idle_.clear();
  while (filled < batch.size()) {
    const size_t room = std::min(completions.size(), batch.size() - filled);
    const size_t count = completions_->poll(std::span(completions).first(room));
    for (const ibv_wc& completion : std::span(completions).first(count)) {
      if (accept(completion, peers, batch[filled])) {
        slots_[completion.wr_id].leased = true;
        ++filled;
      } else if (completion.status == IBV_WC_SUCCESS) {
        idle_.push_back(static_cast<uint32_t>(completion.wr_id));
      } else {
        failed_ = true;
      }
    }
    if (count < room) break;
  }
  post(queue_pair, idle_);
  return filled;
}

// Returns false for failed requests and for packets that no port like this one has sent.
bool UdReceiver::accept(const ibv_wc& completion, const UdPeers& peers, RxDatagram& datagram) {
  ROCECOLL_CHECK(completion.wr_id < slots_.size());
  if (completion.status != IBV_WC_SUCCESS || completion.byte_len <= kRoutingHeaderBytes ||
      (completion.wc_flags & IBV_WC_WITH_IMM) == 0) {
    return false;
  }
  const auto packet = landing(completion.wr_id).first(completion.byte_len);
  const Gid& own = port_.choice().gid.gid;
  const std::optional<Gid> sender = SenderOf(packet.first<kRoutingHeaderBytes>(), own.is_ipv4());
  if (!sender) return false;
  const uint32_t key = ntohl(completion.imm_data);
  const UdPeers::Peer* peer = peers.find(*sender, completion.src_qp, key);
  Slot& slot = slots_[completion.wr_id];
  if (peer == nullptr) {
    slot.stranger = ToAddress({QueuePairAddress::Kind::kDatagrams, port_.choice().mtu_bytes,
                               completion.src_qp, key, *sender});
  }
  datagram = {.bytes = packet.subspan(kRoutingHeaderBytes),
              .from = peer != nullptr ? &peer->address : &slot.stranger,
              .lease = static_cast<uint32_t>(completion.wr_id)};
  return true;
}

void UdReceiver::release(ibv_qp& queue_pair, std::span<const RxDatagram> batch) {
  idle_.clear();
  for (const RxDatagram& datagram : batch) {
    ROCECOLL_CHECK(datagram.lease < slots_.size() && slots_[datagram.lease].leased);
    slots_[datagram.lease].leased = false;
    idle_.push_back(datagram.lease);
  }
  post(queue_pair, idle_);
}

void UdReceiver::restart(ibv_qp& queue_pair) {
  std::array<ibv_wc, kPollBatch> stale;
  while (completions_->poll(stale) != 0) continue;
  failed_ = false;
  idle_.clear();
  for (uint32_t slot = 0; slot < slots_.size(); ++slot) {
    if (!slots_[slot].leased) idle_.push_back(slot);
  }
  post(queue_pair, idle_);
}

void UdReceiver::post(ibv_qp& queue_pair, std::span<const uint32_t> slots) {
  std::array<ibv_recv_wr, kListRequests> requests;
  std::array<ibv_sge, kListRequests> slices;
  while (!slots.empty()) {
    const auto list = slots.first(std::min(kListRequests, slots.size()));
    for (size_t i = 0; i < list.size(); ++i) {
      const auto target = landing(list[i]);
      slices[i] = {reinterpret_cast<uintptr_t>(target.data()), static_cast<uint32_t>(target.size()),
                   buffer_.local_key()};
      requests[i] = {.wr_id = list[i], .next = nullptr, .sg_list = &slices[i], .num_sge = 1};
      if (i > 0) requests[i - 1].next = &requests[i];
    }
    ibv_recv_wr* refused = nullptr;
    if (const int failed = ibv_post_recv(&queue_pair, requests.data(), &refused); failed != 0) {
      port_.health().set_broken(port_.error("post a receive request", failed).message());
      return;
    }
    slots = slots.subspan(list.size());
  }
}

}  // namespace rocecoll
