// SPDX-License-Identifier: Apache-2.0
// What the system's RDMA devices report about themselves.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "transport/verbs/handles.h"
#include "transport/verbs/port_choice.h"

namespace rocecoll {

// Lists every device with its ports and GIDs. A device that cannot be opened says why.
std::vector<DeviceInfo> ListDevices();
// Finds where the process with these options computes, and the interface that has its address.
ProcessPlace PlaceThisProcess(const RdmaOptions& options);
// Returns kNetwork if the device is gone or refuses.
Result<ContextHandle> OpenDevice(const std::string& name);

}  // namespace rocecoll
