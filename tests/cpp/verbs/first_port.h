// SPDX-License-Identifier: Apache-2.0
// Helpers of the tests for the choice of ports.
#pragma once

#include <string>
#include <vector>

#include "transport/verbs/port_choice.h"

namespace rocecoll {

inline GidEntry Entry(uint32_t index, const std::string& address, uint32_t interface_index = 0,
                      GidType type = GidType::kRoceV2) {
  return {index, ParseGid(address).value(), type, interface_index};
}

// The first of the ports that a process takes, for tests of processes that take a single port.
inline Result<PortChoice> ChoosePort(const std::vector<DeviceInfo>& devices,
                                     const RdmaOptions& options, const ProcessPlace& process) {
  auto choices = ChoosePorts(devices, options, process);
  if (!choices.ok()) return choices.status();
  return choices.value().front();
}

}  // namespace rocecoll
