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
// The interface that has this numeric address; 0 if none has.
uint32_t FindInterface(const std::string& host);
// kNetwork if it is gone or refuses.
Result<ContextHandle> OpenDevice(const std::string& name);

}  // namespace rocecoll
