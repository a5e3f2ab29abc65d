// SPDX-License-Identifier: Apache-2.0
// SwitchingTransports whose fast path is the memory of this process, on a simulated network.
#pragma once

#include <iterator>
#include <memory>
#include <utility>
#include <vector>

#include "base/random.h"
#include "conformance/world.h"
#include "switching/memory_path.h"
#include "transport/datagram/datagram_transport.h"
#include "transport/fast_paths/switching/switching_transport.h"
#include "transport/sim/sim_network.h"
#include "transport/sim/sim_port.h"

namespace rocecoll {

class MemoryWorld : public VirtualWorld {
 public:
  static SwitchingOptions Options() {
    return {.words = {.path = "memory",
                      .link = "end in memory",
                      .not_exposed = "a slice cannot be mapped",
                      .control = "the network"}};
  }

  MemoryWorld(size_t count, uint64_t seed, const ConnectionOptions& control,
              const SwitchingOptions& options = Options())
      : network_(queue_, seed, {}), fabric_(queue_), random_(seed) {
    use_clock(queue_);
    network_.set_report_unreachable(true);
    for (size_t i = 0; i < count; ++i) {
      auto device = std::make_unique<MemoryDevice>(fabric_);
      devices_.push_back(device.get());
      auto both = std::make_unique<SwitchingTransport>(
          std::make_unique<DatagramTransport>(network_.add_endpoint(), control), std::move(device),
          options, "no memory");
      transports_.push_back(both.get());
      add(std::move(both));
    }
  }
  ~MemoryWorld() override {
    for (size_t i = 0; i < nodes.size(); ++i) destroy(i);
  }

  void kill(size_t i) override { destroy(i); }
  bool carries(const LinkId& link) override { return transports_[link.local]->links_on_path() > 0; }
  void disturb(uint32_t /*occasion*/) override {
    if (random_.chance(0.3)) {
      devices_[random_.below(devices_.size())]->broken = random_.chance(0.3);
    } else if (!fabric_.ends.empty()) {
      const auto skip = static_cast<std::ptrdiff_t>(random_.below(fabric_.ends.size()));
      std::next(fabric_.ends.begin(), skip)->second->break_end();
    }
  }

  MemoryDevice& device(size_t i) { return *devices_[i]; }
  MemoryFabric& fabric() { return fabric_; }

 private:
  EventQueue queue_;
  SimNetwork network_;
  MemoryFabric fabric_;
  Random random_;
  std::vector<MemoryDevice*> devices_;
  std::vector<SwitchingTransport*> transports_;
};

}  // namespace rocecoll
