// SPDX-License-Identifier: Apache-2.0
#include "transport/datagram/transmit_batch.h"

#include <algorithm>
#include <utility>

#include "base/arithmetic.h"
#include "base/check.h"

namespace rocecoll {
namespace {

// Two messages of segmentation offload. The payload's checksum has just been computed when the
// kernel copies it; this much still lies in the core's own cache.
constexpr size_t kBatchBytes = 2 * 65'000;
constexpr size_t kHeaderAlignment = 64;  // no two headers share a cache line

}  // namespace

TransmitBatch::TransmitBatch(DatagramPort& port, TransportStats& stats)
    : port_(port),
      stats_(stats),
      max_datagram_bytes_(port.limits().max_datagram_bytes),
      max_datagrams_(std::max<size_t>(port.limits().max_burst, 1)),
      // Room for a whole batch of frames: headers, payloads and the gaps between them.
      arena_(kBatchBytes + max_datagram_bytes_ + 2 * max_datagrams_ * kHeaderAlignment) {}

bool TransmitBatch::has_room(size_t datagram_bytes) const {
  ROCECOLL_CHECK(datagram_bytes <= max_datagram_bytes_);
  return !blocked_ && datagrams_.size() < max_datagrams_ &&
         (datagrams_.empty() || bytes_ + datagram_bytes <= kBatchBytes);
}

std::span<std::byte> TransmitBatch::space() {
  ROCECOLL_CHECK(arena_.size() - arena_used_ >= max_datagram_bytes_);
  return std::span(arena_).subspan(arena_used_);
}

void TransmitBatch::add(const TxDatagram& datagram, const Endpoint* owner) {
  const size_t size = datagram.header.size() + datagram.payload.size();
  ROCECOLL_CHECK(has_room(size) && datagram.header.data() == arena_.data() + arena_used_);
  arena_used_ += RoundUp(datagram.header.size(), kHeaderAlignment);
  bytes_ += size;
  datagrams_.push_back(datagram);
  owners_.push_back(owner);
}

bool TransmitBatch::send() {
  const auto waiting = std::span(datagrams_).subspan(first_);
  const size_t accepted = waiting.empty() ? 0 : port_.send(waiting);
  for (const TxDatagram& datagram : waiting.first(accepted)) {
    ++stats_.packets_sent;
    stats_.bytes_sent += datagram.header.size() + datagram.payload.size();
  }
  first_ += accepted;
  blocked_ = first_ < datagrams_.size();
  if (blocked_) {
    copy_queued();
    return false;
  }
  datagrams_.clear();
  owners_.clear();
  first_ = arena_used_ = bytes_ = 0;
  return true;
}

void TransmitBatch::copy_queued() {
  for (size_t i = first_; i < datagrams_.size(); ++i) {
    TxDatagram& datagram = datagrams_[i];
    if (!std::exchange(datagram.payload_is_queued, false) || datagram.payload.empty()) continue;
    ROCECOLL_CHECK(arena_.size() - arena_used_ >= datagram.payload.size());
    const auto copy = std::span(arena_).subspan(arena_used_, datagram.payload.size());
    std::ranges::copy(datagram.payload, copy.begin());
    datagram.payload = copy;
    arena_used_ += RoundUp(copy.size(), kHeaderAlignment);
  }
}

void TransmitBatch::drop_lent(const Endpoint* owner) {
  size_t kept = first_;
  for (size_t i = first_; i < datagrams_.size(); ++i) {
    if (owners_[i] == owner && !datagrams_[i].payload.empty()) continue;
    datagrams_[kept] = datagrams_[i];
    owners_[kept++] = owners_[i];
  }
  datagrams_.resize(kept);
  owners_.resize(kept);
}

}  // namespace rocecoll
