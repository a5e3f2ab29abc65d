// SPDX-License-Identifier: Apache-2.0
#include "runtime/resolve_autos.h"

#include <algorithm>

#include "runtime/option_table.h"

namespace rocecoll {
namespace {

// Several heartbeats must fit into the silence that counts as death. A longer silence than UDP's
// default has no more of them than that one: between many ranks that all know each other they are a
// load for a host that is too slow already.
constexpr int kLeastHeartbeats = 4;
constexpr int kMostHeartbeats = 20;

bool IsAuto(const OptionValues& values, const std::string& name) {
  const auto found = values.find(name);
  return found == values.end() || std::holds_alternative<std::monostate>(found->second);
}

// Injected faults, and udp by name, are to be met within a host, too.
bool SharesMemory(const OptionValues& values) {
  const auto says = [&](const std::string& name, const std::string& text) {
    const auto found = values.find(name);
    return found != values.end() && TextOf(found->second) == text;
  };
  return !says("transport", "udp") && (IsAuto(values, "fault") || says("fault", ""));
}

}  // namespace

OptionValues WithDefaults(OptionValues named) {
  for (const Option& option : OptionTable()) named.emplace(option.name, option.default_value);
  if (IsAuto(named, "shm")) named["shm"] = SharesMemory(named);
  return named;
}

void ResolveAutos(const OptionValues& read, RuntimeOptions& options) {
  if (IsAuto(read, "shm")) options.shm = SharesMemory(read);
  options.progress.patient = IsAuto(read, "spin_us");  // a time that is given is all that is polled
  ConnectionOptions& connection = options.connection;
  if (IsAuto(read, "peer_timeout")) {
    const bool roce_by_name = options.transport == "rc" || options.transport == "ud";
    if (roce_by_name) connection.peer_timeout = kRocePeerTimeout;
    options.roce_peer_timeout = kRocePeerTimeout;
  }
  if (IsAuto(read, "heartbeat_interval")) {
    connection.heartbeat_interval =
        std::clamp(connection.heartbeat_interval, connection.peer_timeout / kMostHeartbeats,
                   connection.peer_timeout / kLeastHeartbeats);
  }
}

}  // namespace rocecoll
