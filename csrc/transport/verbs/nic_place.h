// SPDX-License-Identifier: Apache-2.0
// Where a NIC sits in this machine, and where this process computes, as sysfs reports it. `sysfs`
// is /sys except in tests.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "transport/rdma_options.h"

namespace rocecoll {

inline constexpr char kSysfs[] = "/sys";

using Processors = std::set<uint32_t>;

// The place of a device; an empty field is unknown.
struct NicPlace {
  bool software = false;  // a program that emulates a device: Soft-RoCE
  std::string pci_path;   // the path of its PCI function, from the root of the bus
  // The same, but for a virtual function or subfunction the path of its NIC.
  std::string physical;
  Processors processors;    // the processors near it
  std::optional<int> node;  // the memory node (NUMA); none if the machine has only one
};

// Where this process computes.
struct ProcessPlace {
  uint32_t host_interface = 0;  // the network interface with the address of this host; 0: not known
  Processors processors = {};   // those that the process may use
  std::string accelerator_path = "";  // like pci_path
  std::optional<int> accelerator_node = std::nullopt;
};

NicPlace ReadNicPlace(const std::string& sysfs, const std::string& device);
// 0: not known.
uint32_t ReadPortSpeed(const std::string& sysfs, const std::string& device, uint32_t port);
// Reads everything except host_interface.
ProcessPlace ReadProcessPlace(const std::string& sysfs, const RdmaOptions& options);
// Parses a list such as "0-3,8"; empty for any other text.
Processors ParseProcessors(std::string_view text);

// A larger value is nearer. Use it only to compare NICs.
uint32_t Nearness(const ProcessPlace& process, const NicPlace& nic);

}  // namespace rocecoll
