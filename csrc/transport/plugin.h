// SPDX-License-Identifier: Apache-2.0
// A network plug-in is a shared object with the C symbol kPluginSymbol: a function without
// arguments that returns its NetworkPlugin. It is loaded when a transport that needs it is
// requested, so that its libraries need not be installed otherwise. It is built with the same
// compiler as the core.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"
#include "transport/port.h"
#include "transport/rdma.h"

namespace rocecoll {

struct NetworkPlugin {
  // Raised whenever this struct or an interface that it hands out changes.
  static constexpr uint32_t kVersion = 5;
  uint32_t version = kVersion;  // must stay the first member
  const char* name = "";
  // The devices and ports that `options` choose, at least one. kUnsupported if there is none; the
  // message says why.
  Result<RdmaDevices> (*open_rdma_devices)(const RdmaOptions& options) = nullptr;
  // Unreliable datagrams over the first of these ports, with one queue pair for all peers.
  Result<std::unique_ptr<DatagramPort>> (*open_datagram_port)(const RdmaOptions& options) = nullptr;
  // One line for each port of each device: a description, or why the port is not usable.
  std::string (*describe_devices)(const RdmaOptions& options) = nullptr;
};

inline constexpr char kPluginSymbol[] = "rocecoll_network_plugin";
using PluginEntry = const NetworkPlugin* (*)();

}  // namespace rocecoll
