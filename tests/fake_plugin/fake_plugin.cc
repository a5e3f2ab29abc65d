// SPDX-License-Identifier: Apache-2.0
// A network plug-in that finds no device, for tests of who loads it. FAKE_VERSION is the version
// that it says it has, FAKE_ENTRY the name of its symbol.
#include "transport/plugin.h"

namespace rocecoll {
namespace {

Status NoDevice(const RdmaOptions& options) {
  StatusCode code = StatusCode::kUnsupported;
  if (options.hca == "broken") code = StatusCode::kNetwork;  // there is one, it refuses to work
  if (options.hca == "impossible") code = StatusCode::kInvalidArgument;
  return Status(code, "rocecoll: no device like \"" + options.hca + "\" for " + options.host);
}

Result<std::unique_ptr<RdmaDevice>> OpenRdmaDevice(const RdmaOptions& options) {
  return NoDevice(options);
}

Result<std::unique_ptr<DatagramPort>> OpenDatagramPort(const RdmaOptions& options) {
  return NoDevice(options);
}

std::string DescribeOptions(const RdmaOptions& options) {
  return "fake0 port 1: not for " + options.host;
}

}  // namespace
}  // namespace rocecoll

extern "C" __attribute__((visibility("default"))) const rocecoll::NetworkPlugin* FAKE_ENTRY() {
  static const rocecoll::NetworkPlugin plugin = {FAKE_VERSION, "fake", &rocecoll::OpenRdmaDevice,
                                                 &rocecoll::OpenDatagramPort,
                                                 &rocecoll::DescribeOptions};
  return &plugin;
}
