// SPDX-License-Identifier: Apache-2.0
// The one place that knows every transport.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "runtime/runtime.h"
#include "transport/transport.h"

namespace rocecoll {

// udp: always. ud, rc: kUnsupported where RoCE is not usable, with the reason. auto: rc, which
// without a device here carries everything over UDP, and tells peers so.
Result<std::unique_ptr<Transport>> OpenTransport(const RuntimeOptions& options);

// For people: one line for each port of each RDMA device, or why there are none.
std::string DescribeDevices(const RuntimeOptions& options);

}  // namespace rocecoll
