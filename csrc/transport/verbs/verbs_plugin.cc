// SPDX-License-Identifier: Apache-2.0
#include "transport/plugin.h"
#include "transport/verbs/device_list.h"
#include "transport/verbs/port_choice.h"
#include "transport/verbs/ud_port.h"
#include "transport/verbs/verbs_device.h"

namespace rocecoll {
namespace {

std::string DescribeDevices(const RdmaOptions& options) {
  return DescribePorts(ListDevices(), options, PlaceThisProcess(options));
}

constexpr NetworkPlugin kPlugin{
    .name = "verbs",
    .open_rdma_devices = VerbsDevice::OpenAll,
    .open_datagram_port = UdPort::Open,
    .describe_devices = DescribeDevices,
};

}  // namespace
}  // namespace rocecoll

extern "C" const rocecoll::NetworkPlugin* rocecoll_network_plugin() { return &rocecoll::kPlugin; }
