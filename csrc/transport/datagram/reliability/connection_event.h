// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/ring_buffer.h"
#include "transport/transport.h"

namespace rocecoll {

// An effect that waits to be polled.
struct ConnectionEvent {
  Event::Kind kind = Event::Kind::kFrame;
  uint32_t token = 0;
  std::span<const std::byte> frame;
  std::vector<std::byte> storage;  // what `frame` points into, unless it is the datagram
};

using ConnectionEvents = RingBuffer<ConnectionEvent>;

}  // namespace rocecoll
