// SPDX-License-Identifier: Apache-2.0
// What has gone over one way to one peer, for people.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/time.h"

namespace rocecoll {

// As TransportStats counts, but for shared memory, where a packet is a message.
struct Traffic {
  uint64_t bytes_sent = 0;
  uint64_t bytes_received = 0;
  uint64_t packets_sent = 0;
  uint64_t packets_received = 0;
  uint64_t packets_retransmitted = 0;

  void sent(size_t bytes) {
    ++packets_sent;
    bytes_sent += bytes;
  }
  void received(size_t bytes) {
    ++packets_received;
    bytes_received += bytes;
  }
};

struct PathStats {
  std::string_view path;  // a constant: what carries it as options call that, udp or shm
  bool in_use = false;    // it carries what is sent now
  Traffic traffic;        // of the link, since it was opened
  // Of all links to the peer's process; none where the path measures no such thing.
  std::optional<Duration> rtt;  // smoothed
  std::optional<uint64_t> congestion_window_bytes;
};

}  // namespace rocecoll
