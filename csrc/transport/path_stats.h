// SPDX-License-Identifier: Apache-2.0
// Statistics of one path to one peer, for people to read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/time.h"

namespace rocecoll {

// Counted as in TransportStats, except that a packet of shared memory is a message.
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
  std::string_view path;  // a constant: the transport's name in options, udp, or shm
  bool in_use = false;    // carries what is sent now
  Traffic traffic;        // of this link, since it was opened
  // Of all links to the peer's process; absent where the path does not measure them.
  std::optional<Duration> rtt;  // smoothed
  std::optional<uint64_t> congestion_window_bytes;
};

}  // namespace rocecoll
