// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "base/time.h"

namespace rocecoll {

// How fast a path delivers, measured over about a round trip for each acknowledgement: what arrived
// from one moment to another, over that time or the time in which it was sent, whichever is longer
// (draft-cheng-iccrg-delivery-rate-estimation). "Arrived" is at the peer's host, by what it says it
// waited before the acknowledgement: its process being busy does not count.
class DeliveryRate {
 public:
  // Of a packet when it is sent.
  struct Stamp {
    uint64_t delivered = 0;
    Instant delivered_at{};
    Instant first_sent_at{};  // of the flight that it ends
  };
  struct Sample {
    double bytes_per_second = 0;
    uint64_t delivered = 0;  // in all when the packet that ends the flight was sent
    Instant sent_at{};       // of that packet
  };

  uint64_t delivered() const { return delivered_; }
  // `idle`: nothing is in flight.
  Stamp on_sent(Instant now, bool idle) {
    if (idle) delivered_at_ = first_sent_at_ = now;
    return {delivered_, delivered_at_, first_sent_at_};
  }
  // For each packet that an acknowledgement names for the first time, then end_acknowledgement().
  void on_acked(uint64_t bytes, Instant sent_at, const Stamp& stamp) {
    delivered_ += bytes;
    if (newest_ && sent_at < newest_sent_at_) return;
    newest_ = stamp;
    newest_sent_at_ = sent_at;
  }
  std::optional<Sample> end_acknowledgement(Instant arrived_at) {
    if (!newest_) return std::nullopt;
    delivered_at_ = std::max(delivered_at_, arrived_at);
    first_sent_at_ = std::max(first_sent_at_, newest_sent_at_);
    const Stamp stamp = *newest_;
    newest_.reset();
    const Duration interval =
        std::max(newest_sent_at_ - stamp.first_sent_at, delivered_at_ - stamp.delivered_at);
    if (interval <= Duration{0}) return std::nullopt;
    const auto bytes = static_cast<double>(delivered_ - stamp.delivered);
    return Sample{bytes / Seconds(interval), stamp.delivered, newest_sent_at_};
  }

 private:
  uint64_t delivered_ = 0;
  Instant delivered_at_{};
  Instant first_sent_at_{};
  std::optional<Stamp> newest_;  // named by the acknowledgement that is being read
  Instant newest_sent_at_{};
};

}  // namespace rocecoll
