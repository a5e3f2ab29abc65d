// SPDX-License-Identifier: Apache-2.0
// Transports as users get them, on RDMA devices of this machine.
#pragma once

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/log.h"
#include "conformance/worlds.h"
#include "runtime/open_transport.h"
#include "transport/fast_paths/rc/rc_device.h"

namespace rocecoll {

// An RDMA device and the address of its interface, "rxe0@192.0.2.1" on the command line.
struct NamedDevice {
  std::string name;
  std::string host;
};

class DeviceWorld final : public RealTimeWorld {
 public:
  // Node after node takes the next device, or each has all of them as its rails.
  DeviceWorld(const std::string& transport, const std::vector<NamedDevice>& devices,
              bool all_at_once, const std::string& plugin, const WorldSpec& spec) {
    while (TakeLogEntry(Duration{0})) {
    }
    for (size_t i = 0; i < spec.nodes; ++i) {
      const NamedDevice& device = devices[i % devices.size()];
      RuntimeOptions options;
      options.transport = transport;
      options.host = device.host;
      options.rdma.hca = "=" + device.name;
      if (all_at_once) {
        options.local_ranks = 1;
        for (const NamedDevice& other : devices) options.rdma.hca += "," + other.name;
      }
      options.plugin = plugin;
      if (spec.tight) {
        options.rc.credits = 1;
        options.connection.frame_queue_bytes = 64 * 1024;
        options.connection.max_pending_writes = 1;
      }
      Result<std::unique_ptr<Transport>> opened = OpenTransport(options);
      if (!opened.ok()) throw std::runtime_error(opened.status().message());
      add(opened.take());
    }
  }
  bool carries(const LinkId& link) override {
    if (const auto* rc = dynamic_cast<const SwitchingTransport*>(nodes[link.local].transport)) {
      return rc->links_on_path() > 0;
    }
    // A UD port is hidden behind its transport, but says when a pair of ranks goes over to it.
    while (auto entry = TakeLogEntry(Duration{0})) said_ += entry->text + "\n";
    return said_.find("RoCE carries the traffic with " + addresses[link.remote].text()) !=
           std::string::npos;
  }

 private:
  std::string said_;
};

}  // namespace rocecoll
