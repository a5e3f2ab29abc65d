// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/device_list.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

#include "transport/verbs/verbs_error.h"

namespace rocecoll {
namespace {

// The list of libibverbs. Its devices stay valid until it is destroyed, and those that were opened
// stay valid for good.
class VerbsDeviceList {
 public:
  VerbsDeviceList() : devices_(ibv_get_device_list(&count_)) {}
  ~VerbsDeviceList() {
    if (devices_ != nullptr) ibv_free_device_list(devices_);
  }
  VerbsDeviceList(const VerbsDeviceList&) = delete;
  VerbsDeviceList& operator=(const VerbsDeviceList&) = delete;

  ibv_device** begin() const { return devices_; }
  ibv_device** end() const { return devices_ == nullptr ? nullptr : devices_ + count_; }

 private:
  int count_ = 0;
  ibv_device** devices_;
};

GidType ToGidType(uint32_t type) {
  if (type == IBV_GID_TYPE_ROCE_V2) return GidType::kRoceV2;
  return type == IBV_GID_TYPE_ROCE_V1 ? GidType::kRoceV1 : GidType::kOther;
}

Gid ToGid(const ibv_gid& gid) {
  Gid result;
  std::memcpy(result.bytes.data(), gid.raw, result.bytes.size());
  return result;
}

PortInfo ReadPort(uint8_t number, const ibv_port_attr& attributes) {
  PortInfo port;
  port.number = number;
  port.active = attributes.state == IBV_PORT_ACTIVE;
  port.state = ibv_port_state_str(attributes.state);
  port.ethernet = attributes.link_layer == IBV_LINK_LAYER_ETHERNET;
  port.mtu_bytes = size_t{128} << attributes.active_mtu;
  return port;
}

// Reads only the entries in use, however many holes there are.
Status ReadGids(ibv_context* context, size_t table_entries, DeviceInfo& device) {
  std::vector<ibv_gid_entry> entries(std::max<size_t>(table_entries, 1));
  const ssize_t count = ibv_query_gid_table(context, entries.data(), entries.size(), 0);
  if (count < 0) return VerbsError(device.name, "read the GID table", static_cast<int>(-count));
  for (const ibv_gid_entry& entry : std::span(entries).first(static_cast<size_t>(count))) {
    for (PortInfo& port : device.ports) {
      if (port.number != entry.port_num) continue;
      port.gids.push_back(
          {entry.gid_index, ToGid(entry.gid), ToGidType(entry.gid_type), entry.ndev_ifindex});
    }
  }
  return {};
}

Status ReadPorts(ibv_context* context, DeviceInfo& device) {
  ibv_device_attr attributes{};
  if (const int error = ibv_query_device(context, &attributes); error != 0) {
    return VerbsError(device.name, "read the attributes", error);
  }
  size_t table_entries = 0;
  for (uint32_t number = 1; number <= attributes.phys_port_cnt; ++number) {
    ibv_port_attr port{};
    const int error = ibv_query_port(context, static_cast<uint8_t>(number), &port);
    if (error != 0) return VerbsError(device.name, "read port " + std::to_string(number), error);
    device.ports.push_back(ReadPort(static_cast<uint8_t>(number), port));
    table_entries += static_cast<size_t>(std::max(port.gid_tbl_len, 0));
  }
  return ReadGids(context, table_entries, device);
}

DeviceInfo ReadDevice(ibv_device* device) {
  DeviceInfo info;
  info.name = ibv_get_device_name(device);
  if (device->transport_type != IBV_TRANSPORT_IB) {
    info.problem = device->transport_type == IBV_TRANSPORT_IWARP
                       ? "speaks iWARP, not RoCE"
                       : "speaks a protocol of its maker, not RoCE";
    return info;
  }
  const ContextHandle context(ibv_open_device(device));
  const Status status = context == nullptr ? VerbsError(info.name, "open the device", errno)
                                           : ReadPorts(context.get(), info);
  if (!status.ok()) {
    info.problem = status.message().substr(info.name.size() + 2);  // the name precedes it
    info.ports.clear();
  }
  return info;
}

std::optional<Gid> ToGid(const sockaddr* address) {
  if (address == nullptr) return std::nullopt;
  Gid gid;
  if (address->sa_family == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(address);
    gid.bytes[10] = gid.bytes[11] = 0xff;
    std::memcpy(gid.bytes.data() + 12, &v4->sin_addr, 4);
  } else if (address->sa_family == AF_INET6) {
    const auto* v6 = reinterpret_cast<const sockaddr_in6*>(address);
    std::memcpy(gid.bytes.data(), &v6->sin6_addr, 16);
  } else {
    return std::nullopt;
  }
  return gid;
}

// The interface that has this numeric address; 0 if none has.
uint32_t FindInterface(const std::string& host) {
  const std::optional<Gid> wanted = ParseGid(host);
  ifaddrs* all = nullptr;
  if (!wanted || getifaddrs(&all) != 0) return 0;
  uint32_t index = 0;
  for (const ifaddrs* item = all; item != nullptr && index == 0; item = item->ifa_next) {
    if (ToGid(item->ifa_addr) == wanted) index = if_nametoindex(item->ifa_name);
  }
  freeifaddrs(all);
  return index;
}

}  // namespace

std::vector<DeviceInfo> ListDevices() {
  std::vector<DeviceInfo> devices;
  for (ibv_device* device : VerbsDeviceList()) {
    DeviceInfo& info = devices.emplace_back(ReadDevice(device));
    info.place = ReadNicPlace(kSysfs, info.name);
    for (PortInfo& port : info.ports) {
      port.speed_gbit_s = ReadPortSpeed(kSysfs, info.name, port.number);
    }
  }
  return devices;
}

ProcessPlace PlaceThisProcess(const RdmaOptions& options) {
  ProcessPlace place = ReadProcessPlace(kSysfs, options);
  place.host_interface = FindInterface(options.host);
  return place;
}

Result<ContextHandle> OpenDevice(const std::string& name) {
  const VerbsDeviceList devices;
  for (ibv_device* device : devices) {
    if (name != ibv_get_device_name(device)) continue;
    ContextHandle context(ibv_open_device(device));
    if (context == nullptr) return VerbsError(name, "open the device", errno);
    return context;
  }
  return Status(StatusCode::kNetwork, name + ": the device is gone");
}

}  // namespace rocecoll
