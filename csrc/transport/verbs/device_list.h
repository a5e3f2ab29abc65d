// SPDX-License-Identifier: Apache-2.0
// What the system's RDMA devices say of themselves.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "transport/verbs/handles.h"
#include "transport/verbs/port_choice.h"

namespace rocecoll {

// Every device with its ports and GIDs; a device that cannot be opened says why.
std::vector<DeviceInfo> ListDevices();
// Where the process of these options computes, and the interface that has its address.
ProcessPlace PlaceThisProcess(const RdmaOptions& options);
// kNetwork if it is gone or refuses.
Result<ContextHandle> OpenDevice(const std::string& name);

}  // namespace rocecoll
