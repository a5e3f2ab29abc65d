// SPDX-License-Identifier: Apache-2.0
// The one place that knows every transport.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "runtime/runtime.h"
#include "transport/transport.h"

namespace rocecoll {

// udp: always. ud, rc: kUnsupported where RoCE is not usable, with the reason. auto: rc with peers
// that may have RoCE, as their addresses say, and UDP as it is otherwise with the rest; where that
// is not known, the two ends find out. `roce`, if given, gets what this process has.
Result<std::unique_ptr<Transport>> OpenTransport(const RuntimeOptions& options,
                                                 RoceUse* roce = nullptr);

// For people: one line for each port of each RDMA device, or why there are none.
std::string DescribeDevices(const RuntimeOptions& options);

}  // namespace rocecoll
