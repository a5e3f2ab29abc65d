// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/time.h"
#include "transport/datagram/datagram_endpoint.h"

namespace rocecoll {

// Shares the port's receive buffer among the peers that currently send bulk, and each peer's share
// among its connections, so that what they may have in flight together fits: the overflow of this
// buffer is the main cause of loss within a host and under incast.
class ReceiveShares {
 public:
  // Shorter datagrams are acknowledgements and heartbeats, which do not fill a buffer.
  static constexpr size_t kBulkBytes = 512;
  static constexpr Duration kActiveFor = std::chrono::milliseconds(50);
  static constexpr Duration kRecount = std::chrono::milliseconds(10);
  // Longer than a driver that is awake takes between two looks at the socket.
  static constexpr Duration kLookInterval = std::chrono::milliseconds(5);
  static constexpr uint64_t kMostLooks = 64;

  ReceiveShares(size_t buffer_bytes, size_t max_datagram_bytes)
      : buffer_bytes_(buffer_bytes),
        least_bytes_(2 * std::min(max_datagram_bytes, Connection::kModestDatagramBytes)) {}

  void on_datagram(Instant now, Endpoint& endpoint, size_t bytes) {
    if (bytes < kBulkBytes) return;
    endpoint.bulk_heard = now;
    if (endpoint.sends_bulk) return;
    endpoint.sends_bulk = true;
    if (endpoint.path.bulk_senders++ == 0) ++active_paths_;
    active_.push_back(&endpoint);
  }
  bool recount_due(Instant now) const { return !active_.empty() && now >= recount_at_; }
  // Forgets connections that have fallen silent. `buffer_bytes` is the current estimate of how much
  // the buffer holds.
  void recount(Instant now, size_t buffer_bytes) {
    recount_at_ = now + kRecount;
    buffer_bytes_ = buffer_bytes;
    std::erase_if(active_, [&](Endpoint* endpoint) {
      if (now - endpoint->bulk_heard < kActiveFor) return false;
      leave(*endpoint);
      return true;
    });
  }
  // The endpoint is about to be destroyed.
  void forget(Endpoint& endpoint) {
    if (!endpoint.sends_bulk) return;
    std::erase(active_, &endpoint);
    leave(endpoint);
  }
  // What a connection of this path may have in flight: its part of the path's share. The buffer
  // only has to hold what arrives between two looks at it, not what is still on a long path.
  uint64_t share_bytes(const PeerPath& path) const {
    const size_t share =
        buffer_bytes_ / std::max<size_t>(active_paths_, 1) / std::max<size_t>(path.bulk_senders, 1);
    const auto looks = static_cast<uint64_t>(path.path.rtt.smoothed() / kLookInterval);
    return std::max(share, least_bytes_) * std::clamp<uint64_t>(looks, 1, kMostLooks);
  }

 private:
  void leave(Endpoint& endpoint) {
    endpoint.sends_bulk = false;
    if (--endpoint.path.bulk_senders == 0) --active_paths_;
  }

  size_t buffer_bytes_;
  const size_t least_bytes_;
  std::vector<Endpoint*> active_;
  size_t active_paths_ = 0;
  Instant recount_at_{};
};

}  // namespace rocecoll
