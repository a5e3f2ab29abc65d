// SPDX-License-Identifier: Apache-2.0
#include "transport/datagram/reliability/sent_packets.h"

#include <algorithm>

#include "base/check.h"

namespace rocecoll {

using State = SentPacket::State;

void SentPackets::add(const SentPacket& packet) {
  ROCECOLL_CHECK(packet.state == State::kInFlight || packet.state == State::kNotTracked);
  ROCECOLL_CHECK(!full());
  packets_.push_back(packet);
  if (packet.state != State::kInFlight) return;
  ROCECOLL_CHECK(packet.bytes > 0);
  bytes_in_flight_ += packet.bytes;
  last_tracked_at_ = packet.sent_at;
  last_asks_at_once_ = packet.asks_at_once;
}

void SentPackets::mark_lost(uint64_t number) {
  SentPacket& packet = packets_[number];
  ROCECOLL_CHECK(packet.state == State::kInFlight);
  ROCECOLL_CHECK(bytes_in_flight_ >= packet.bytes);
  packet.state = State::kLost;
  bytes_in_flight_ -= packet.bytes;
}

uint64_t SentPackets::oldest_in_flight() {
  cursor_ = std::max(cursor_, packets_.begin_index());
  while (cursor_ < next_number() && packets_[cursor_].state != State::kInFlight) ++cursor_;
  return cursor_;
}

bool SentPackets::trim(Instant horizon) {
  bool any_lost = false;
  const uint64_t before = packets_.begin_index();
  while (!packets_.empty()) {
    const SentPacket& oldest = packets_.front();
    if (oldest.state == State::kInFlight) break;
    if (oldest.state == State::kLost && oldest.sent_at >= horizon) break;
    any_lost = any_lost || oldest.state == State::kLost;
    packets_.pop_front();
  }
  if (packets_.begin_index() != before) acknowledged_.erase(before, packets_.begin_index());
  return any_lost;
}

void SentPackets::clear() {
  packets_.clear();
  acknowledged_.clear();
  bytes_in_flight_ = 0;
  ROCECOLL_CHECK(!any_in_flight());
}

}  // namespace rocecoll
