// SPDX-License-Identifier: Apache-2.0
// Datagram transports over simulated or real ports.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "conformance/world.h"
#include "transport/datagram/datagram_transport.h"
#include "transport/datagram/fault_port.h"
#include "transport/datagram/udp/udp_port.h"
#include "transport/sim/sim_network.h"
#include "transport/sim/sim_port.h"

namespace rocecoll {

constexpr size_t kKiB = 1024;

class SimWorld final : public VirtualWorld {
 public:
  explicit SimWorld(size_t count, const SimWire& wire = {}, uint64_t seed = 1,
                    const SimPortOptions& port = {}, const ConnectionOptions& options = {},
                    std::optional<Duration> roce_peer_timeout = std::nullopt)
      : network(queue, seed, wire), options_(options) {
    use_clock(queue);
    for (size_t i = 0; i < count; ++i) {
      auto sim = network.add_endpoint(port);
      ports.push_back(sim.get());
      add(std::make_unique<DatagramTransport>(std::move(sim), options, roce_peer_timeout));
    }
  }
  ~SimWorld() override {
    for (size_t i = 0; i < nodes.size(); ++i) destroy(i);
  }
  void kill(size_t i) override { destroy(i); }
  void restart(uint32_t i) {
    auto sim = network.restart_endpoint(i);
    ports[i] = sim.get();
    replace(i, std::make_unique<DatagramTransport>(std::move(sim), options_));
  }
  // A blackout, whose length alternates between occasions.
  void disturb(uint32_t occasion) override { network.set_partition(1, occasion % 2 == 0); }

  EventQueue queue;
  SimNetwork network;
  std::vector<SimPort*> ports;

 private:
  ConnectionOptions options_;
};

// Uses real sockets on loopback, in real time.
class UdpWorld final : public RealTimeWorld {
 public:
  UdpWorld(size_t count, const UdpPortOptions& port_options, const FaultOptions& faults = {},
           const ConnectionOptions& options = {}) {
    for (size_t i = 0; i < count; ++i) {
      Result<std::unique_ptr<UdpPort>> udp = UdpPort::Open(port_options);
      EXPECT_TRUE(udp.ok()) << udp.status().message();
      std::unique_ptr<DatagramPort> port = udp.take();
      if (faults.any()) {
        port = std::make_unique<FaultPort>(std::move(port), faults, [this] { return now(); });
      }
      add(std::make_unique<DatagramTransport>(std::move(port), options));
    }
  }
};

}  // namespace rocecoll
