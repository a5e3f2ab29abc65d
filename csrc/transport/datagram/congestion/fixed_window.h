// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "transport/datagram/congestion/congestion_controller.h"

namespace rocecoll {

// For peers on the same host: the window stays at its maximum and nothing is paced. What looks like
// queueing there is a process that waits for a core.
class FixedWindow final : public CongestionController {
 public:
  explicit FixedWindow(uint64_t window_bytes) : CongestionController(window_bytes, window_bytes) {}

 private:
  SendStamp take_sent(Instant /*now*/, uint64_t /*bytes*/) override { return {}; }
  void take_acked(uint64_t /*bytes*/, Instant /*sent_at*/, const SendStamp& /*stamp*/) override {}
  void take_lost(Instant /*now*/, uint64_t /*bytes*/, Instant /*sent_at*/) override {}
};

}  // namespace rocecoll
