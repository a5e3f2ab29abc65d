// SPDX-License-Identifier: Apache-2.0
// Which port of which device to use, and which entry of its GID table. These are pure functions of
// what was read from the devices (device_list.h), so every combination can be tested without a
// device.
//
// A port is usable if it is an active Ethernet port with a RoCE v2 entry. If several are usable,
// port_deal.h decides which of them a process takes. Among a port's entries the order of preference
// is: the one with this process's own address; one on the interface of that address; a global
// address before a link-local one; one of the same family. The index of an entry has no meaning,
// because entries come and go with addresses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "transport/rdma.h"
#include "transport/verbs/gid.h"
#include "transport/verbs/nic_place.h"

namespace rocecoll {

enum class GidType : uint8_t { kRoceV2, kRoceV1, kOther };

struct GidEntry {
  uint32_t index = 0;
  Gid gid;
  GidType type = GidType::kRoceV2;
  uint32_t interface_index = 0;  // the network interface that has this address; 0: not known
};

struct PortInfo {
  uint8_t number = 1;
  bool active = true;
  std::string state;  // in text form
  bool ethernet = true;
  size_t mtu_bytes = 0;        // the active MTU
  uint32_t speed_gbit_s = 0;   // 0: not known
  std::vector<GidEntry> gids;  // the entries that are in use
};

struct DeviceInfo {
  std::string name;
  std::string problem;  // why the device cannot be used at all; empty: it can
  std::vector<PortInfo> ports;
  NicPlace place = {};
};

struct PortChoice {
  std::string device;
  uint8_t port = 1;
  GidEntry gid;
  size_t mtu_bytes = 0;  // capped by the options
  std::string why;       // why this port was chosen, if others are usable too
};

// "mlx5_0 port 1, GID 3 (192.0.2.1, RoCE v2)".
std::string ToText(const PortChoice& choice);

// Returns kInvalidArgument for options that no device could meet, and kUnsupported, with every port
// and what is wrong with it, if none is usable. A process may take several ports (port_deal.h); its
// first port comes first.
Result<std::vector<PortChoice>> ChoosePorts(const std::vector<DeviceInfo>& devices,
                                            const RdmaOptions& options,
                                            const ProcessPlace& process);

// One line for each port: what it is, or why it is not usable. The line of the chosen port says
// that it is chosen, and why.
std::string DescribePorts(const std::vector<DeviceInfo>& devices, const RdmaOptions& options,
                          const ProcessPlace& process);

}  // namespace rocecoll
