// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

#include "transport/datagram/congestion/loss_response.h"

namespace rocecoll {

// What a path and its queue hold together, as losses tell: inflight_hi of BBRv3
// (draft-ietf-ccwg-bbr). Who waits for a late peer, or makes up for his own lateness, has more in
// flight than the model says that the path holds, and a small queue does not take that.
class FlightBound {
 public:
  // Infinite until the first overflow.
  double bytes() const { return bytes_; }
  void on_sent(uint64_t bytes_in_flight) {
    most_ = std::max(most_, static_cast<double>(bytes_in_flight));
  }
  // In flight, in this round and the one before.
  double most() const { return std::max(most_, most_before_); }
  // After each round: whether a queue overflowed in it. What was sent in that round or in
  // the one before made it overflow, and shows for some more.
  void on_round(bool overflow, uint64_t packet_bytes) {
    const auto packet = static_cast<double>(packet_bytes);
    if (overflow && rounds_ >= kLossShows) {
      bytes_ = std::max(std::min(bytes_, most()) * kLossKept, kLeastPackets * packet);
      rounds_ = 0;
    } else if (!overflow && most() > kReached * bytes_) {
      // What a cut took is back after eleven rounds, where the path holds few packets, later: many
      // senders on a short path would lose too much.
      bytes_ += std::max(packet / 2, bytes_ / 32);
    }
    ++rounds_;
    most_before_ = std::exchange(most_, 0.0);
  }

 private:
  static constexpr double kReached = 0.9;
  static constexpr double kLeastPackets = 4;
  double bytes_ = std::numeric_limits<double>::infinity();
  double most_ = 0;  // in flight
  double most_before_ = 0;
  uint32_t rounds_ = kLossShows;  // since a cut
};

}  // namespace rocecoll
