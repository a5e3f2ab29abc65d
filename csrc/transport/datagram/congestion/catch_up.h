// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "transport/datagram/congestion/loss_response.h"

namespace rocecoll {

// How much a sender that woke up late may send at once to make up for it. A sender that made up for
// nothing would take its own lateness for the path's rate and get slower and slower; one that made
// up for everything would send more after another process's time slice than most queues hold. Only
// losses tell how much they hold: like a TCP window (RFC 5681 section 3.1), this grows quickly
// until the first loss, then by a packet at a time.
//
// Any loss counts. Where senders share a port, each of them takes for chance what the others make
// it lose: with four and eight senders whose processes shared two cores 15 % was sent again when
// only an overflow counted, and 3 % now.
class CatchUp {
 public:
  // About the initial window of a TCP (RFC 5681 section 3.1: three segments).
  static constexpr uint64_t kLeast = 4 * 1024;
  // CongestionController::kMaxWindow.
  static constexpr uint64_t kMost = 64 * 1024 * 1024;

  uint64_t bytes() const { return bytes_; }
  // After each round: whether there was more to make up for than bytes(), and whether anything was
  // lost. A loss counts against bytes() in that round and in the first ones after it, when it
  // shows.
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
  uint64_t threshold_ = kMost;  // growth is slow from here on: ssthresh
  uint32_t rounds_ago_ = kLossShows;
};

}  // namespace rocecoll
