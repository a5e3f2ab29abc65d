// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "transport/datagram/congestion/loss_response.h"

namespace rocecoll {

// How much a sender that got up late may send at once to make up for it. Without any it takes its
// own lateness for the path's rate, and gets slower and slower; with all, what a host sends after a
// time slice of others is more than most queues hold. How much they hold only losses tell: as a
// TCP's window (RFC 5681 section 3.1) it grows quickly until the first, then by a packet a time.
// Any loss counts, as where senders share a port each of them takes what the others make it lose
// for chance: of four and eight whose processes share two cores 15 % was sent again, and 3 % so.
class CatchUp {
 public:
  // About the initial window of a TCP (RFC 5681 section 3.1: three segments).
  static constexpr uint64_t kLeast = 4 * 1024;
  static constexpr uint64_t kMost = 64 * 1024 * 1024;

  uint64_t bytes() const { return bytes_; }
  // Of a round trip: whether more than bytes() was to be made up for, and whether anything was
  // lost, in this one or in the first ones after it, when losses show.
  void on_round(bool used_up, bool lost, uint64_t packet_bytes) {
    if (used_up) rounds_ago_ = 0;
    if (lost && rounds_ago_ < kLossShows) {
      bytes_ = std::max(kLeast, static_cast<uint64_t>(static_cast<double>(bytes_) * kLossKept));
      threshold_ = bytes_;
      rounds_ago_ = kLossShows;
    } else if (used_up) {
      bytes_ = std::min(kMost, bytes_ + (bytes_ < threshold_ ? bytes_ / 4 : packet_bytes));
    }
    if (rounds_ago_ < kLossShows) ++rounds_ago_;
  }

 private:
  uint64_t bytes_ = kLeast;
  uint64_t threshold_ = kMost;  // from which on it grows slowly
  uint32_t rounds_ago_ = kLossShows;
};

}  // namespace rocecoll
