// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/time.h"
#include "transport/datagram/datagram_endpoint.h"

namespace rocecoll {

// Shares the port's receive buffer among the peers that send bulk at the moment, so that what all
// of them may have in flight fits: the overflow of this buffer is the main loss within a host and
// under incast.
class ReceiveShares {
 public:
  // Shorter datagrams are acknowledgements and heartbeats, which fill no buffer.
  static constexpr size_t kBulkBytes = 512;
  static constexpr Duration kActiveFor = std::chrono::milliseconds(50);
  static constexpr Duration kRecount = std::chrono::milliseconds(10);

  ReceiveShares(size_t buffer_bytes, size_t max_datagram_bytes)
      : buffer_bytes_(buffer_bytes), least_bytes_(2 * max_datagram_bytes) {}

  void on_datagram(Instant now, PeerPath& path, size_t bytes) {
    if (bytes < kBulkBytes) return;
    path.bulk_heard = now;
    if (path.sends_bulk) return;
    path.sends_bulk = true;
    active_.push_back(&path);
  }
  // Forgets peers that have fallen silent. Cheap when called often.
  void expire(Instant now) {
    if (active_.empty() || now < recount_at_) return;
    recount_at_ = now + kRecount;
    std::erase_if(active_, [now](PeerPath* path) {
      path->sends_bulk = now - path->bulk_heard < kActiveFor;
      return !path->sends_bulk;
    });
  }
  uint64_t share_bytes() const {
    return std::max(buffer_bytes_ / std::max<size_t>(active_.size(), 1), least_bytes_);
  }

 private:
  const size_t buffer_bytes_;
  const size_t least_bytes_;
  std::vector<PeerPath*> active_;
  Instant recount_at_{};
};

}  // namespace rocecoll
