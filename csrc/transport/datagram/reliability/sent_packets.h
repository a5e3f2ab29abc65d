// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/range_set.h"
#include "base/ring_buffer.h"
#include "base/time.h"
#include "transport/datagram/congestion/congestion_controller.h"

namespace rocecoll {

// A packet that was sent: when, and what has to be sent again if it is lost.
struct SentPacket {
  enum class State : uint8_t {
    kInFlight,
    kAcknowledged,
    kLost,        // declared lost; a late acknowledgement may still prove that wrong
    kNotTracked,  // asks for no acknowledgement
  };
  Instant sent_at{};
  uint32_t bytes = 0;
  State state = State::kNotTracked;
  bool close = false;
  bool mtu_probe = false;     // has no content: only its size matters
  bool asks_at_once = false;  // asks for an immediate acknowledgement
  uint16_t frame_count = 0;
  uint32_t data_length = 0;  // zero: no DATA
  uint64_t frame_first = 0;
  uint64_t write_index = 0;
  uint64_t data_offset = 0;
  SendStamp stamp{};
};

// The packets from the oldest that still matters to the newest, by packet number.
class SentPackets {
 public:
  // Bounds the memory to about 5 MiB, whatever windows are configured.
  static constexpr size_t kMaxPackets = 1u << 16;
  // The part of these that is reserved for probes and acknowledgements.
  static constexpr size_t kReserved = 1u << 12;

  explicit SentPackets(uint64_t first_number = 0) : packets_(first_number) {}

  uint64_t next_number() const { return packets_.end_index(); }
  bool full() const { return packets_.size() >= kMaxPackets; }
  bool has_room_for_content() const { return packets_.size() < kMaxPackets - kReserved; }
  uint64_t bytes_in_flight() const { return bytes_in_flight_; }
  bool any_in_flight() const { return bytes_in_flight_ > 0; }
  // These are about the newest packet that asks for an acknowledgement.
  Instant last_tracked_at() const { return last_tracked_at_; }
  bool last_asks_at_once() const { return last_asks_at_once_; }

  // Adds the packet with number next_number().
  void add(const SentPacket& packet);
  bool contains(uint64_t number) const { return packets_.contains(number); }
  const SentPacket& operator[](uint64_t number) const { return packets_[number]; }
  // Calls `visit(number, packet)` for every packet in [begin, end) that is acknowledged for the
  // first time. The packet's state is still kInFlight or kLost in this call.
  template <typename Visit>
  void acknowledge(uint64_t begin, uint64_t end, Visit visit);
  void mark_lost(uint64_t number);
  // The lowest number in flight, or next_number() if there is none.
  uint64_t oldest_in_flight();
  // Forgets packets that need no answer, and lost ones that were sent before `horizon`. True if
  // lost packets were among them.
  bool trim(Instant horizon);
  // No packet below this needs an answer any more.
  uint64_t settled_below() const { return packets_.begin_index(); }
  // Afterwards nothing is in flight; the numbers continue.
  void clear();

 private:
  RingBuffer<SentPacket> packets_;
  RangeSet acknowledged_;  // so that an acknowledgement costs only what is new in it
  uint64_t bytes_in_flight_ = 0;
  uint64_t cursor_ = 0;  // nothing below is in flight
  Instant last_tracked_at_{};
  bool last_asks_at_once_ = false;
};

template <typename Visit>
void SentPackets::acknowledge(uint64_t begin, uint64_t end, Visit visit) {
  ROCECOLL_CHECK(end <= next_number());
  begin = std::max(begin, packets_.begin_index());
  if (begin >= end) return;
  acknowledged_.for_each_missing(begin, end, [&](uint64_t from, uint64_t to) {
    for (uint64_t number = from; number < to; ++number) {
      SentPacket& packet = packets_[number];
      if (packet.state == SentPacket::State::kNotTracked) continue;
      ROCECOLL_CHECK(packet.state != SentPacket::State::kAcknowledged);
      if (packet.state == SentPacket::State::kInFlight) bytes_in_flight_ -= packet.bytes;
      visit(number, static_cast<const SentPacket&>(packet));
      packet.state = SentPacket::State::kAcknowledged;
    }
  });
  acknowledged_.insert(begin, end);
}

}  // namespace rocecoll
