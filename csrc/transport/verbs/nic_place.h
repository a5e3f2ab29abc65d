// SPDX-License-Identifier: Apache-2.0
// Where a NIC sits in this machine, and where this process computes, as sysfs tells. `sysfs` is
// /sys, but in tests.
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

// Of a device; what is empty is not known.
struct NicPlace {
  bool software = false;    // a program that plays a device: Soft-RoCE
  std::string pci_path;     // of its PCI function, from the root of the bus
  std::string physical;     // the same, but of a virtual function or subfunction that of its NIC
  Processors processors;    // the near ones
  std::optional<int> node;  // of memory (NUMA); none where the machine has only one
};

// Of this process.
struct ProcessPlace {
  uint32_t host_interface = 0;  // the network interface with the address of this host; 0: not known
  Processors processors = {};   // those that it may use
  std::string accelerator_path = "";  // as pci_path
  std::optional<int> accelerator_node = std::nullopt;
};

NicPlace ReadNicPlace(const std::string& sysfs, const std::string& device);
// 0: not known.
uint32_t ReadPortSpeed(const std::string& sysfs, const std::string& device, uint32_t port);
// But for its host_interface.
ProcessPlace ReadProcessPlace(const std::string& sysfs, const RdmaOptions& options);
// "0-3,8"; nothing of what is no such list.
Processors ParseProcessors(std::string_view text);

// Larger is nearer; only good for comparing NICs.
uint32_t Nearness(const ProcessPlace& process, const NicPlace& nic);

}  // namespace rocecoll
