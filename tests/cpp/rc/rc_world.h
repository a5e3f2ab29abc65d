// SPDX-License-Identifier: Apache-2.0
// RC transports on simulated RDMA devices and a simulated network for their control paths.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "conformance/world.h"
#include "transport/datagram/datagram_transport.h"
#include "transport/fast_paths/rc/rc_device.h"
#include "transport/sim/sim_network.h"
#include "transport/sim/sim_port.h"
#include "transport/sim/sim_rdma.h"

namespace rocecoll {

struct RcWorldOptions {
  RcOptions rc = {};
  SimWire wire = {};  // of the control path
  ConnectionOptions control = {};
  SimRdmaOptions rdma = {};
  RdmaLimits limits = SimRdmaFabric::DefaultLimits();
  std::vector<uint32_t> without_device = {};
  size_t rails = 1;
  std::vector<uint32_t> with_one_rail = {};  // whatever the others have
};

class RcWorld : public VirtualWorld {
 public:
  explicit RcWorld(size_t count, const RcWorldOptions& options = {})
      : network(queue, options.rdma.seed, options.wire),
        fabric(queue, options.rdma),
        rails_(options.rails),
        random_(options.rdma.seed) {
    use_clock(queue);
    network.set_report_unreachable(true);
    while (TakeLogEntry(Duration{0})) {
    }
    std::vector<std::unique_ptr<Transport>> controls;
    std::vector<RdmaDevices> devices(count);
    for (uint32_t i = 0; i < count; ++i) {
      auto control = std::make_unique<DatagramTransport>(network.add_endpoint(), options.control);
      has_device.push_back(std::ranges::count(options.without_device, i) == 0);
      // The fabric gives a node's first device the node's number.
      auto device = fabric.add_device(options.limits);
      if (has_device.back()) devices[i].push_back(std::move(device));
      controls.push_back(std::move(control));
    }
    for (size_t rail = 1; rail < options.rails; ++rail) {
      for (uint32_t i = 0; i < count; ++i) {
        auto device = fabric.add_device(options.limits);
        const bool more = has_device[i] && std::ranges::count(options.with_one_rail, i) == 0;
        if (more) devices[i].push_back(std::move(device));
      }
    }
    for (uint32_t i = 0; i < count; ++i) {
      auto rc = MakeRcTransport(std::move(controls[i]), std::move(devices[i]), options.rc);
      transports.push_back(rc.get());
      add(std::move(rc));
    }
  }
  ~RcWorld() override {
    for (size_t i = 0; i < nodes.size(); ++i) destroy(i);
  }

  void kill(size_t i) override {
    destroy(i);
    transports[i] = nullptr;
  }
  bool carries(const LinkId& link) override {
    // Nodes without a device have no link on RoCE; the others tell only how many they have.
    if (!has_device[link.local]) return transports[link.local]->links_on_path() == 0;
    return !has_device[link.remote] || transports[link.local]->links_on_path() > 0;
  }
  // Breaks queue pairs, or changes what works between and at the nodes; the last occasion of a run
  // may leave anything as it is.
  void disturb(uint32_t /*occasion*/) override {
    const size_t rail = rails_ == 1 ? 0 : random_.below(rails_);
    const auto some_device = [&] {
      return endpoint(static_cast<uint32_t>(random_.below(nodes.size())), rail);
    };
    const uint32_t at = some_device();
    const uint32_t other = some_device();
    const std::vector<uint32_t> numbers = fabric.queue_pairs(at);
    switch (random_.below(8)) {
      case 0:
        return fabric.cut(at, other);
      case 1:
      case 2:
        return fabric.mend(at, other);
      case 3:
        return fabric.set_port(at, random_.chance(0.7));
      case 4:
        fabric.refusals(at) = {random_.chance(0.2), random_.chance(0.2), random_.chance(0.2),
                               random_.chance(0.5)};
        return;
      default:
        if (!numbers.empty()) {
          fabric.break_queue_pair(at, numbers[random_.below(numbers.size())]);
        }
    }
  }
  LinkRecord& at(uint32_t node, Link* link) { return nodes[node].links[link]; }
  // What people have been told.
  static std::vector<std::string> log() {
    std::vector<std::string> texts;
    while (auto entry = TakeLogEntry(Duration{0})) {
      texts.push_back((entry->severity == Severity::kWarning ? "warning: " : "info: ") +
                      entry->text);
    }
    return texts;
  }
  // Of the fabric: the node's device on that rail.
  uint32_t endpoint(uint32_t node, size_t rail) const {
    return static_cast<uint32_t>(rail * nodes.size()) + node;
  }
  uint32_t queue_pair(uint32_t node) const { return fabric.queue_pairs(node).back(); }

  EventQueue queue;
  SimNetwork network;
  SimRdmaFabric fabric;
  std::vector<SwitchingTransport*> transports;
  std::vector<bool> has_device;

 private:
  const size_t rails_;
  Random random_;
};

inline bool Contains(const std::vector<std::string>& texts, const std::string& part) {
  return std::ranges::any_of(
      texts, [&](const std::string& text) { return text.find(part) != std::string::npos; });
}

}  // namespace rocecoll
