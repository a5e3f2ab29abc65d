// SPDX-License-Identifier: Apache-2.0
// Shared memory between the processes of one host, beside a control transport that reaches all
// ranks.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "base/log.h"
#include "base/status.h"
#include "transport/fast_paths/shm/shm_device.h"
#include "transport/fast_paths/shm/shm_options.h"
#include "transport/fast_paths/switching/switching_transport.h"

namespace rocecoll {

// Links to processes that `options.reaches` names use shared memory if that works. All other links
// are those of `control`. If this process can share no memory, it says so once, and its peers learn
// why.
inline std::unique_ptr<SwitchingTransport> MakeShmTransport(std::unique_ptr<Transport> control,
                                                            const ShmOptions& options) {
  auto device = ShmDevice::Open(options);
  const std::string no_device = device.status().message();
  if (!device.ok()) {
    Log(Severity::kInfo, "no shared memory in this process, only the network: " + no_device);
  }
  std::unique_ptr<FastDevice> fast;
  if (device.ok()) fast = device.take();
  return std::make_unique<SwitchingTransport>(std::move(control), std::move(fast), options,
                                              no_device);
}

}  // namespace rocecoll
