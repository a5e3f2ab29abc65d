// SPDX-License-Identifier: Apache-2.0
// The one place that knows every transport.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "runtime/runtime.h"
#include "transport/transport.h"

namespace rocecoll {

// udp always opens. ud and rc are kUnsupported, with the reason, where RoCE cannot be used. auto is
// rc with peers whose addresses say that they may have RoCE, and plain UDP with the rest; with
// peers whose addresses do not say it, the two ends find out. `roce`, if given, receives what this
// process has.
Result<std::unique_ptr<Transport>> OpenTransport(const RuntimeOptions& options,
                                                 RoceUse* roce = nullptr);

// For people to read: one line for each port of each RDMA device, or why there are none.
std::string DescribeDevices(const RuntimeOptions& options);

}  // namespace rocecoll
