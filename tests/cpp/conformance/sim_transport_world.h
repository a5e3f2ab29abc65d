// SPDX-License-Identifier: Apache-2.0
// The link-level simulator's transports.
#pragma once

#include <memory>

#include "conformance/world.h"
#include "transport/sim/sim_fabric.h"
#include "transport/sim/sim_transport.h"

namespace rocecoll {

class SimTransportWorld final : public VirtualWorld {
 public:
  SimTransportWorld(size_t count, bool tight, uint64_t seed)
      : fabric_(Options(count, tight, seed)) {
    use_clock(fabric_.queue());
    for (uint32_t i = 0; i < count; ++i) add(fabric_.transport(i));
  }
  void kill(size_t i) override {
    fabric_.kill(static_cast<uint32_t>(i));
    destroy(i);
  }

 private:
  static SimFabricOptions Options(size_t count, bool tight, uint64_t seed) {
    SimFabricOptions options;
    options.endpoints = static_cast<uint32_t>(count);
    options.max_jitter = std::chrono::microseconds(20);
    options.seed = seed;
    if (tight) {
      options.max_queued_frames = 2;
      options.max_queued_writes = 1;
    }
    return options;
  }

  SimFabric fabric_;
};

}  // namespace rocecoll
