// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "transport/verbs/port_choice.h"

namespace rocecoll {

// The first of the ports that a process takes, for tests of processes that take one.
inline Result<PortChoice> ChoosePort(const std::vector<DeviceInfo>& devices,
                                     const RdmaOptions& options, const ProcessPlace& process) {
  auto choices = ChoosePorts(devices, options, process);
  if (!choices.ok()) return choices.status();
  return choices.value().front();
}

}  // namespace rocecoll
