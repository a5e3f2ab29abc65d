// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>

#include "transport/datagram/congestion/congestion_controller.h"

namespace rocecoll {

inline constexpr uint64_t kPacketBytes = 1500;

// A sender that always has something to send, and a path that it does not share.
template <typename Controller>
struct LoneSender {
  explicit LoneSender(double bytes_per_second = 1.25e8) : rate(bytes_per_second) {}

  struct Packet {
    Instant sent_at, arrived_at, acknowledged_at;
    SendStamp stamp;
    bool lost;
  };

  void send_all() {
    while (congestion.paced(now) && (flight.empty() || congestion.has_room(kPacketBytes))) {
      const bool full = Seconds(free_at - now) * rate > queue_bytes;
      if (!full) {
        free_at = std::max(free_at, now) +
                  Duration(static_cast<int64_t>(static_cast<double>(kPacketBytes) / rate * 1e9));
      }
      const bool lost = full || (lose_every > 0 && ++sent % lose_every == 0);
      const Instant arrived_at = free_at + base;
      flight.push_back({now, arrived_at, arrived_at + (sent % 64 < 32 ? host_delay : Duration{0}),
                        congestion.on_sent(now, kPacketBytes), lost});
      if (lose_every == 0) ++sent;
    }
    congestion.on_held_back(now);
  }
  void run_for(Duration duration) {
    const Instant end = now + duration;
    delivered = 0;
    while (now < end) {
      send_all();
      const Instant acknowledged = flight.empty() ? kNever : flight.front().acknowledged_at;
      Instant next = std::min(acknowledged, end);
      if (congestion.release_at() > now) {
        next = std::min(next, congestion.release_at() + timer_delay);
      }
      if (next > now) now = next + core_delay;
      while (!flight.empty() && flight.front().acknowledged_at <= now) take(flight.front());
    }
  }
  void take(Packet packet) {
    flight.pop_front();
    if (packet.lost) return congestion.on_lost(now, kPacketBytes, packet.sent_at);
    delivered += kPacketBytes;
    congestion.on_acked(kPacketBytes, packet.sent_at, packet.stamp);
    const Duration host = packet.acknowledged_at - packet.arrived_at;
    congestion.end_acknowledgement(now, packet.arrived_at,
                                   {{.network = packet.arrived_at - packet.sent_at, .host = host}});
  }
  double share(Duration duration) {
    run_for(duration);
    return static_cast<double>(delivered) / (rate * Seconds(duration));
  }

  Controller congestion{CongestionController::kMaxWindow};
  Instant now = Instant{} + std::chrono::seconds(100);
  Instant free_at{};
  std::deque<Packet> flight;
  uint64_t sent = 0;
  uint64_t delivered = 0;
  double rate;
  Duration base = std::chrono::milliseconds(1);
  Duration host_delay{};
  // The time until this process gets a core after its timer has woken it, and after anything has.
  Duration timer_delay{};
  Duration core_delay{};
  uint64_t lose_every = 0;
  double queue_bytes = 1e12;  // what it holds in addition to packets in flight
};

}  // namespace rocecoll
