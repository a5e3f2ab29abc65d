// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/ud_sender.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "transport/verbs/verbs_error.h"

namespace rocecoll {

Result<std::unique_ptr<UdSender>> UdSender::Create(VerbsPort& port, size_t slots) {
  slots = std::max(slots / kSignalEvery, uint64_t{1}) * kSignalEvery;
  const size_t slot_bytes = port.choice().mtu_bytes;
  Result<RegisteredBuffer> buffer = RegisteredBuffer::Make(port, slots * slot_bytes);
  if (!buffer.ok()) return buffer.status();
  CompletionQueueHandle completions(
      ibv_create_cq(port.context(), static_cast<int>(slots), nullptr, nullptr, 0));
  if (completions == nullptr) return port.error("make a completion queue", errno);
  return std::unique_ptr<UdSender>(
      new UdSender(port, buffer.take(), std::move(completions), slots, slot_bytes));
}

UdSender::UdSender(VerbsPort& port, RegisteredBuffer buffer, CompletionQueueHandle completions,
                   size_t slots, size_t slot_bytes)
    : port_(port),
      buffer_(std::move(buffer)),
      completions_(std::move(completions)),
      slots_(slots),
      slot_bytes_(slot_bytes) {}

size_t UdSender::send(ibv_qp& queue_pair, uint32_t max_inline_bytes, uint32_t own_key,
                      const UdPeers& peers, std::span<const TxDatagram> batch) {
  std::array<ibv_send_wr, kMaxBurst> requests;
  std::array<ibv_sge, kMaxBurst> slices;
  std::array<size_t, kMaxBurst> position;  // the datagram's position in the batch
  take_completions();
  const size_t room = std::min<size_t>(slots_ - (next_ - first_), kMaxBurst);
  size_t listed = 0;
  size_t taken = 0;
  for (; taken < batch.size() && listed < room; ++taken) {
    const TxDatagram& datagram = batch[taken];
    const UdPeers::Peer& peer = peers[datagram.to];
    const size_t bytes = datagram.header.size() + datagram.payload.size();
    // The peer could not receive the datagram, and the device would not report it; or the way to
    // the peer is unknown.
    if (bytes > peer.max_datagram_bytes || peer.way->handle == nullptr) continue;
    const uint64_t index = next_ + listed;
    const auto packet = fill(index, datagram);
    slices[listed] = {reinterpret_cast<uintptr_t>(packet.data()), static_cast<uint32_t>(bytes),
                      buffer_.local_key()};
    ibv_send_wr& request = requests[listed];
    request = {};
    request.wr_id = index;
    request.sg_list = &slices[listed];
    request.num_sge = 1;
    request.opcode = IBV_WR_SEND_WITH_IMM;
    request.imm_data = htonl(own_key);
    if ((index + 1) % kSignalEvery == 0) request.send_flags |= IBV_SEND_SIGNALED;
    if (bytes <= max_inline_bytes) request.send_flags |= IBV_SEND_INLINE;
    request.wr.ud.ah = peer.way->handle.get();
    request.wr.ud.remote_qpn = peer.number;
    request.wr.ud.remote_qkey = peer.key;
    position[listed++] = taken;
  }
  const size_t posted = post(queue_pair, std::span(requests).first(listed));
  next_ += posted;
  return posted < listed ? position[posted] : taken;
}

std::span<std::byte> UdSender::fill(uint64_t index, const TxDatagram& datagram) {
  const auto slot = buffer_.bytes().subspan((index % slots_) * slot_bytes_, slot_bytes_);
  std::memcpy(slot.data(), datagram.header.data(), datagram.header.size());
  if (!datagram.payload.empty()) {
    std::memcpy(&slot[datagram.header.size()], datagram.payload.data(), datagram.payload.size());
  }
  return slot.first(datagram.header.size() + datagram.payload.size());
}

size_t UdSender::post(ibv_qp& queue_pair, std::span<ibv_send_wr> list) {
  if (list.empty()) return 0;
  for (size_t i = 1; i < list.size(); ++i) list[i - 1].next = &list[i];
  ibv_send_wr* refused = nullptr;
  const int failed = ibv_post_send(&queue_pair, list.data(), &refused);
  if (failed == 0) return list.size();
  if (ErrorNumber(failed) != ENOMEM) {  // ENOMEM means that the queue is full
    port_.health().set_broken(port_.error("send a datagram", failed).message());
  }
  return refused == nullptr ? 0 : static_cast<size_t>(refused - list.data());
}

void UdSender::take_completions() {
  std::array<ibv_wc, 16> batch;
  int count = 0;
  do {
    count = ibv_poll_cq(completions_.get(), batch.size(), batch.data());
    for (int i = 0; i < count; ++i) {
      const ibv_wc& completion = batch[static_cast<size_t>(i)];
      ROCECOLL_CHECK(completion.wr_id >= first_ && completion.wr_id < next_);
      first_ = completion.wr_id + 1;
      failed_ = failed_ || completion.status != IBV_WC_SUCCESS;
    }
  } while (count == static_cast<int>(batch.size()));
}

void UdSender::restart() {
  take_completions();
  first_ = next_;
  failed_ = false;
}

}  // namespace rocecoll
