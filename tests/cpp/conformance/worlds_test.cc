// SPDX-License-Identifier: Apache-2.0
// Which transports and networks there are, and the suite's command line.
#include "conformance/worlds.h"

#include <gtest/gtest.h>

#include "conformance/sim_transport_world.h"
#include "datagram/failover_world.h"
#include "datagram/transport_world.h"
#include "rc/rc_world.h"

namespace rocecoll {
namespace {

ConnectionOptions ConnectionOf(const WorldSpec& spec) {
  ConnectionOptions options;
  if (spec.tight) {
    options.frame_queue_bytes = 64 * 1024;
    options.max_pending_writes = 1;
  }
  return options;
}

WorldKind OverSimulatedPackets(const std::string& name, const SimWire& wire) {
  return {name, [wire](const WorldSpec& spec) {
            return std::make_unique<SimWorld>(spec.nodes, wire, spec.seed, SimPortOptions(),
                                              ConnectionOf(spec));
          }};
}

WorldKind OverLoopback(const std::string& name, const UdpPortOptions& port,
                       const FaultOptions& faults = {}) {
  return {name,
          [port, faults](const WorldSpec& spec) {
            return std::make_unique<UdpWorld>(spec.nodes, port, faults, ConnectionOf(spec));
          },
          /*seeded=*/false};
}

// UDP and UD ports in each process, but for the first of those named `mixed`.
WorldKind OverSimulatedUd(const std::string& name, bool mixed) {
  return {name, [mixed](const WorldSpec& spec) {
            FailoverWorldOptions options;
            options.count = spec.nodes;
            options.seed = spec.seed;
            options.connection = ConnectionOf(spec);
            if (mixed) options.without_ud = {true};
            return std::make_unique<FailoverWorld>(options);
          }};
}

WorldKind OverSimulatedRdma(const std::string& name, const RcWorldOptions& options) {
  return {name, [options](const WorldSpec& spec) {
            RcWorldOptions own = options;
            own.control = ConnectionOf(spec);
            own.rdma.seed = spec.seed;
            if (spec.tight) {
              own.rc.credits = 1;
              own.limits.max_send_requests = 24;
            }
            return std::make_unique<RcWorld>(spec.nodes, own);
          }};
}

std::vector<WorldKind> MakeWorlds() {
  const SimWire storm{
      .bytes_per_second = 1e9, .loss = 0.03, .duplicate = 0.03, .reorder = 0.1, .corrupt = 0.01};
  const FaultOptions faults{.loss = 0.01, .duplicate = 0.01, .reorder = 0.02, .corrupt = 0.005};
  std::vector<WorldKind> worlds;
  worlds.push_back({"sim", [](const WorldSpec& spec) {
                      return std::make_unique<SimTransportWorld>(spec.nodes, spec.tight, spec.seed);
                    }});
  worlds.push_back(OverSimulatedPackets("packets", {.bytes_per_second = 1e9}));
  worlds.push_back(OverSimulatedPackets("storm", storm));
  worlds.push_back(OverSimulatedUd("ud", false));
  worlds.push_back(OverSimulatedUd("ud_mixed", true));
  const SimRdmaOptions wire{.bytes_per_second = 2e9, .max_jitter = std::chrono::microseconds(20)};
  worlds.push_back(OverSimulatedRdma("rc", {.rdma = wire}));
  worlds.push_back(
      OverSimulatedRdma("rc_striped", {.rc = {.queue_pairs_per_connection = 4}, .rdma = wire}));
  worlds.push_back(OverSimulatedRdma("rc_mixed", {.rdma = wire, .without_device = {0}}));
  worlds.push_back(OverLoopback("udp4", {.host = "127.0.0.1"}));
  worlds.push_back(OverLoopback("udp6", {.host = "::1", .segmentation_offload = false}));
  worlds.push_back(OverLoopback("udp_faults", {.host = "127.0.0.1"}, faults));
  return worlds;
}

}  // namespace

const std::vector<WorldKind>& AllWorlds() {
  static const std::vector<WorldKind> worlds = MakeWorlds();
  return worlds;
}

}  // namespace rocecoll
