// SPDX-License-Identifier: Apache-2.0
#include "runtime/open_transport.h"

#include <utility>

#include "engine/engine_lock.h"
#include "runtime/network_plugin.h"
#include "transport/datagram/datagram_transport.h"
#include "transport/datagram/fault_port.h"
#include "transport/datagram/udp_port.h"

namespace rocecoll {
namespace {

Result<const NetworkPlugin*> Plugin(const RuntimeOptions& options) {
  return LoadNetworkPlugin(options.plugin.empty() ? VerbsPluginPath() : options.plugin);
}

RdmaOptions Rdma(const RuntimeOptions& options) {
  RdmaOptions rdma = options.rdma;
  rdma.host = options.host;
  return rdma;
}

std::unique_ptr<DatagramPort> WithFaults(std::unique_ptr<DatagramPort> port,
                                         const FaultOptions& faults) {
  if (!faults.any()) return port;
  return std::make_unique<FaultPort>(std::move(port), faults, MonotonicNow);
}

Result<std::unique_ptr<DatagramPort>> OpenUdpPort(const RuntimeOptions& options) {
  UdpPortOptions port_options;
  port_options.host = options.host;
  port_options.port_low = options.port_low;
  port_options.port_high = options.port_high;
  port_options.max_datagram_bytes = options.max_datagram_bytes;
  port_options.socket_buffer_bytes = options.socket_buffer_bytes;
  port_options.segmentation_offload = options.segmentation_offload;
  auto port = UdpPort::Open(port_options);
  if (!port.ok()) return port.status();
  return WithFaults(port.take(), options.fault);
}

// What plug-in and loader say, as a part of a longer message.
std::string Reason(const Status& status) {
  constexpr std::string_view kPrefix = "rocecoll: ";
  const std::string& text = status.message();
  return text.starts_with(kPrefix) ? text.substr(kPrefix.size()) : text;
}

}  // namespace

Result<std::unique_ptr<Transport>> OpenTransport(const RuntimeOptions& options) {
  if (options.transport != "udp") {
    return Status(StatusCode::kInvalidArgument,
                  "rocecoll: there is no transport \"" + options.transport + "\"; there is udp");
  }
  auto port = OpenUdpPort(options);
  if (!port.ok()) return port.status();
  return std::unique_ptr<Transport>(
      std::make_unique<DatagramTransport>(port.take(), options.connection));
}

std::string DescribeDevices(const RuntimeOptions& options) {
  const auto plugin = Plugin(options);
  if (!plugin.ok()) return Reason(plugin.status());
  return plugin.value()->describe_devices(Rdma(options));
}

}  // namespace rocecoll
