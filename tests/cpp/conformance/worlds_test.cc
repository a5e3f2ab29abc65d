// SPDX-License-Identifier: Apache-2.0
// Which transports and networks there are, and the suite's command line:
//   --rdma=NAME@ADDRESS,...  runs over these RDMA devices, too; ADDRESS is their interface's
//   --plugin=PATH            the plug-in to load for them, else the one beside this program
//   --seed=N                 where a test runs many seeds: this one alone
#include "conformance/worlds.h"

#include <gtest/gtest.h>

#include <charconv>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "base/run_choice.h"
#include "conformance/device_world.h"
#include "conformance/sim_transport_world.h"
#include "datagram/failover_world.h"
#include "datagram/transport_world.h"
#include "rc/rc_world.h"
#include "shm/shm_world.h"
#include "switching/memory_world.h"

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

WorldKind OverSharedMemory(const std::string& name, const ShmOptions& options) {
  return {name,
          [options](const WorldSpec& spec) {
            return std::make_unique<ShmWorld>(spec.nodes, ConnectionOf(spec), options);
          },
          /*seeded=*/false};
}

// By main(), before the tests are made.
std::vector<NamedDevice> devices;
std::string plugin;
uint64_t only_seed = 0;

bool ParseDevices(std::string_view list) {
  while (!list.empty()) {
    const std::string_view one = list.substr(0, list.find(','));
    list.remove_prefix(std::min(list.size(), one.size() + 1));
    const size_t at = one.find('@');
    if (at == 0 || at == std::string_view::npos || at + 1 == one.size()) return false;
    devices.push_back({std::string(one.substr(0, at)), std::string(one.substr(at + 1))});
  }
  return !devices.empty();
}

bool ParseSeed(std::string_view text) {
  const char* const end = text.data() + text.size();
  return std::from_chars(text.data(), end, only_seed).ptr == end && only_seed > 0;
}

// Takes the flag's value if it is this one.
bool Matches(std::string_view argument, std::string_view flag, std::string_view& value) {
  if (!argument.starts_with(flag)) return false;
  value = argument.substr(flag.size());
  return true;
}

WorldKind OverDevices(const std::string& transport, bool all_at_once = false) {
  return {all_at_once ? "device_rc_rails" : "device_" + transport,
          [transport, all_at_once](const WorldSpec& spec) {
            return std::make_unique<DeviceWorld>(transport, devices, all_at_once, plugin, spec);
          },
          /*seeded=*/false};
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
  worlds.push_back(OverSimulatedRdma("rc_own_receives",
                                     {.rdma = wire, .limits = SimRdmaFabric::OwnReceiveLimits()}));
  SimRdmaOptions slow_connects = wire;
  slow_connects.connect_time = std::chrono::seconds(2);
  worlds.push_back(OverSimulatedRdma("rc_slow_connects", {.rdma = slow_connects}));
  worlds.push_back({"memory", [](const WorldSpec& spec) {
                      return std::make_unique<MemoryWorld>(spec.nodes, spec.seed,
                                                           ConnectionOf(spec));
                    }});
  RcOptions striped;
  striped.queue_pairs_per_connection = 4;
  striped.adaptive_routing = true;
  worlds.push_back(OverSimulatedRdma("rc_striped", {.rc = striped, .rdma = wire}));
  worlds.push_back(OverSimulatedRdma("rc_rails", {.rdma = wire, .rails = 2}));
  worlds.push_back(OverSimulatedRdma("rc_mixed", {.rdma = wire, .without_device = {0}}));
  worlds.push_back(OverLoopback("udp4", {.host = "127.0.0.1"}));
  worlds.push_back(OverLoopback("udp6", {.host = "::1", .segmentation_offload = false}));
  worlds.push_back(OverLoopback("udp_faults", {.host = "127.0.0.1"}, faults));
  worlds.push_back(OverSharedMemory("shm", {}));
  ShmOptions in_parts;
  in_parts.fetch = false;
  worlds.push_back(OverSharedMemory("shm_parts", in_parts));
  if (!devices.empty()) {
    for (const char* transport : {"rc", "ud", "auto"}) worlds.push_back(OverDevices(transport));
    if (devices.size() > 1) worlds.push_back(OverDevices("rc", /*all_at_once=*/true));
  }
  return worlds;
}

}  // namespace

const std::vector<WorldKind>& AllWorlds() {
  static const std::vector<WorldKind> worlds = MakeWorlds();
  return worlds;
}

std::vector<uint64_t> SeedsOfRun(uint64_t count, uint64_t first, uint64_t last) {
  if (only_seed != 0) return {only_seed};
  return ChooseForRun(count, first, last);
}

}  // namespace rocecoll

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    std::string_view value;
    if (rocecoll::Matches(argv[i], "--rdma=", value) && !rocecoll::ParseDevices(value)) {
      std::fprintf(stderr, "--rdma takes NAME@ADDRESS,...: %s\n", argv[i]);
      return 2;
    }
    if (rocecoll::Matches(argv[i], "--plugin=", value)) rocecoll::plugin = value;
    if (rocecoll::Matches(argv[i], "--seed=", value) && !rocecoll::ParseSeed(value)) {
      std::fprintf(stderr, "--seed takes a number above 0: %s\n", argv[i]);
      return 2;
    }
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
