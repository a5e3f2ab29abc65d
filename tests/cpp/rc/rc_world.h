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
#include "transport/rc/rc_transport.h"
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
};

class RcWorld : public VirtualWorld {
 public:
  explicit RcWorld(size_t count, const RcWorldOptions& options = {})
      : network(queue, 1, options.wire), fabric(queue, options.rdma) {
    use_clock(queue);
    network.set_report_unreachable(true);
    while (TakeLogEntry(Duration{0})) {
    }
    for (uint32_t i = 0; i < count; ++i) {
      auto control = std::make_unique<DatagramTransport>(network.add_endpoint(), options.control);
      auto device = fabric.add_device(options.limits);
      has_device.push_back(std::ranges::count(options.without_device, i) == 0);
      if (!has_device.back()) device = nullptr;
      auto rc = std::make_unique<RcTransport>(std::move(control), std::move(device), options.rc);
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
    if (!has_device[link.local]) return transports[link.local]->links_on_roce() == 0;
    return !has_device[link.remote] || transports[link.local]->links_on_roce() > 0;
  }
  // A node's queue pairs break, or two nodes do not reach each other for a while.
  void disturb(uint32_t occasion) override {
    const auto count = static_cast<uint32_t>(nodes.size());
    const uint32_t at = occasion / 2 % count;
    if (occasion % 2 == 1) return fabric.cut(at, (at + 1) % count);
    for (uint32_t a = 0; a < count; ++a) fabric.mend(a, (a + 1) % count);
    for (const uint32_t number : fabric.queue_pairs(at)) fabric.break_queue_pair(at, number);
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
  uint32_t queue_pair(uint32_t node) const { return fabric.queue_pairs(node).back(); }

  EventQueue queue;
  SimNetwork network;
  SimRdmaFabric fabric;
  std::vector<RcTransport*> transports;
  std::vector<bool> has_device;
};

inline bool Contains(const std::vector<std::string>& texts, const std::string& part) {
  return std::ranges::any_of(
      texts, [&](const std::string& text) { return text.find(part) != std::string::npos; });
}

}  // namespace rocecoll
