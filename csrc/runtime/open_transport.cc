// SPDX-License-Identifier: Apache-2.0
#include "runtime/open_transport.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "base/monotonic_clock.h"
#include "runtime/network_plugin.h"
#include "transport/datagram/datagram_transport.h"
#include "transport/datagram/fault_port.h"
#include "transport/datagram/ud/failover_port.h"
#include "transport/datagram/udp/udp_address.h"
#include "transport/datagram/udp/udp_port.h"
#include "transport/fast_paths/rc/rc_device.h"
#include "transport/fast_paths/shm/shm_transport.h"

namespace rocecoll {
namespace {

Result<const NetworkPlugin*> Plugin(const RuntimeOptions& options) {
  return LoadNetworkPlugin(options.plugin.empty() ? VerbsPluginPath() : options.plugin);
}

RdmaOptions Rdma(const RuntimeOptions& options) {
  RdmaOptions rdma = options.rdma;
  rdma.host = options.host;
  rdma.local_ranks = options.local_ranks;
  // Under auto, software that emulates a device (Soft-RoCE) is not used.
  rdma.software = options.transport != "auto";
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
  port_options.port_low = static_cast<uint16_t>(options.port_range.first);
  port_options.port_high = static_cast<uint16_t>(options.port_range.second);
  port_options.local_ranks = options.local_ranks;
  port_options.max_datagram_bytes = options.max_datagram_bytes;
  port_options.socket_buffer_bytes = options.socket_buffer_bytes;
  port_options.segmentation_offload = options.segmentation_offload;
  port_options.dscp = options.dscp;
  port_options.ecn = options.ecn;
  auto port = UdpPort::Open(port_options);
  if (!port.ok()) return port.status();
  Log(Severity::kInfo, port.value()->description());
  return WithFaults(port.take(), options.fault);
}

Result<std::unique_ptr<DatagramPort>> OpenUdPort(const RuntimeOptions& options) {
  const auto plugin = Plugin(options);
  if (!plugin.ok()) return plugin.status();
  auto port = plugin.value()->open_datagram_port(Rdma(options));
  if (!port.ok()) return port.status();
  FaultOptions faults = options.fault;
  ++faults.seed;  // so that other packets are hit than on the UDP port
  return WithFaults(port.take(), faults);
}

// Most machines have none; the kernel says so without the plug-in.
bool HasRdmaDevices() {
  std::error_code error;
  std::filesystem::directory_iterator devices("/sys/class/infiniband", error);
  return !error && devices != std::filesystem::directory_iterator();
}

// Under auto, a process that may not lock enough memory for one RoCE pair uses no RoCE from the
// start, so that its peers know and no attempt is wasted.
Status RoomToLock(const RdmaDevices& devices) {
  const uint64_t needed = RcOptions::kLeastLockedBytes * devices.size();
  const uint64_t limit = devices.front()->limits().max_registered_bytes;
  if (limit >= needed) return {};
  return Status(StatusCode::kNetwork,
                Names(devices) + ": this process may lock " + std::to_string(limit >> 10) +
                    " KiB of memory, RoCE takes " + std::to_string(needed >> 20) +
                    " MiB and the tensors in flight; `ulimit -l unlimited`, for a container "
                    "`--ulimit memlock=-1`");
}

Result<RdmaDevices> OpenDevices(const RuntimeOptions& options) {
  const bool automatic = options.transport == "auto";
  if (automatic && options.plugin.empty() && !HasRdmaDevices()) {
    return Status(StatusCode::kUnsupported, "there is no RDMA device");
  }
  const auto plugin = Plugin(options);
  if (!plugin.ok()) return plugin.status();
  auto devices = plugin.value()->open_rdma_devices(Rdma(options));
  if (!devices.ok() || !automatic) return devices;
  const Status room = RoomToLock(devices.value());
  if (!room.ok()) return room;
  return devices;
}

// Joins the lines of a list that follows a line ending in a colon.
std::string InOneLine(std::string text) {
  bool first = true;
  for (size_t at = text.find('\n'); at != text.npos; at = text.find('\n', at)) {
    text.replace(at, 1, std::exchange(first, false) ? " " : "; ");
  }
  return text;
}

// The advice gets a line of its own, since reasons may be lists or end in a command.
Status NotHere(const RuntimeOptions& options, const Status& why) {
  std::string text = "transport " + options.transport + " cannot be used here: " + why.message();
  if (why.code() != StatusCode::kInvalidArgument) {
    text +=
        "\nOr set ROCECOLL_TRANSPORT=auto, the default, on all ranks: RoCE where there is some, "
        "else UDP";
  }
  return Status(why.code(), std::move(text));
}

std::unique_ptr<Transport> OverPort(std::unique_ptr<DatagramPort> port,
                                    const RuntimeOptions& options) {
  return std::make_unique<DatagramTransport>(std::move(port), options.connection);
}

// Ranks of one host, and only those, reach each other over loopback.
bool OnThisHost(const Address& peer) {
  const auto endpoint = ToUdpEndpoint(peer);
  return endpoint.ok() && endpoint.value().is_loopback();
}

std::unique_ptr<Transport> WithSharedMemory(std::unique_ptr<Transport> network) {
  ShmOptions shm;
  shm.reaches = OnThisHost;
  return MakeShmTransport(std::move(network), shm);
}

// The device is opened before the socket, so that no port is taken if there is no RoCE.
Result<std::unique_ptr<Transport>> OpenUd(const RuntimeOptions& options, RoceUse& roce) {
  auto ud = OpenUdPort(options);
  if (!ud.ok()) return NotHere(options, ud.status());
  roce.port = ud.value()->address().text();
  Log(Severity::kInfo, "RoCE port: " + roce.port);
  auto udp = OpenUdpPort(options);
  if (!udp.ok()) return udp.status();
  FailoverOptions failover;
  failover.failover = options.rc.failover;
  return OverPort(FailoverPort::Make(udp.take(), ud.take(), failover, MonotonicNow), options);
}

// The peers to which links may switch to RoCE; links to all others are plain UDP ones.
SwitchingOptions::ReachedPeers ReachedOverRoce(const RuntimeOptions& options, bool has_device) {
  return [shm = options.shm, automatic = options.transport == "auto",
          has_device](const Address& peer) {
    if (shm && OnThisHost(peer)) return false;
    if (!automatic || peer.roce() == Roce::kUnknown) return true;
    return has_device && peer.roce() == Roce::kUsable;
  };
}

bool AnyPairMayHaveRoce(std::span<const Address> group) {
  return std::ranges::count_if(group,
                               [](const Address& one) { return one.roce() != Roce::kNone; }) > 1;
}

// Whether a process that cannot use RoCE must not start either.
bool IsFatal(const RuntimeOptions& options, StatusCode why) {
  if (options.transport == "rc") return true;
  return options.roce_wanted && why == StatusCode::kInvalidArgument;
}

// A machine without RoCE is normal. A device that refuses to work is worth a warning to users who
// asked for RoCE; nobody else has to know how RDMA is set up.
Severity SeverityOf(const RuntimeOptions& options, StatusCode why) {
  const bool warns = options.roce_wanted && why != StatusCode::kUnsupported;
  return warns ? Severity::kWarning : Severity::kInfo;
}

Result<std::unique_ptr<Transport>> OpenRc(const RuntimeOptions& options, RoceUse& roce) {
  const bool expected = options.transport == "rc";
  RdmaDevices devices;
  if (auto opened = OpenDevices(options); opened.ok()) {
    devices = opened.take();
    roce.port = Names(devices);
    Log(Severity::kInfo, "RoCE port: " + roce.port);
  } else {
    const StatusCode code = opened.status().code();
    if (IsFatal(options, code)) return NotHere(options, opened.status());
    roce.problem = InOneLine(opened.status().message());
    Log(SeverityOf(options, code), "no RoCE in this process, only UDP: " + roce.problem);
  }
  auto udp = OpenUdpPort(options);
  if (!udp.ok()) return udp.status();
  RcOptions rc = options.rc;
  rc.expected = expected;
  rc.heartbeat_interval = options.connection.heartbeat_interval;
  if (options.shm || !expected) rc.reaches = ReachedOverRoce(options, !devices.empty());
  if (!expected) rc.concerns = AnyPairMayHaveRoce;
  auto control = std::make_unique<DatagramTransport>(
      udp.take(), options.connection, devices.empty() ? std::nullopt : options.roce_peer_timeout);
  return std::unique_ptr<Transport>(
      MakeRcTransport(std::move(control), std::move(devices), rc, roce.problem));
}

// Whether shared memory carries all pairs: a device would only cost memory, queues and time.
bool NeedsNoRoce(const RuntimeOptions& options) {
  return options.transport == "auto" && options.shm && options.one_host && !options.roce_wanted;
}

Result<std::unique_ptr<Transport>> OpenNetwork(const RuntimeOptions& options, RoceUse& roce) {
  const std::string& name = options.transport;
  if (name == "ud") return OpenUd(options, roce);
  if (NeedsNoRoce(options)) {
    roce.problem = "its launcher has told it that all ranks are on its host";
  } else if (name == "rc" || name == "auto") {
    return OpenRc(options, roce);
  } else {
    ROCECOLL_CHECK(name == "udp");  // the table of options accepts no other
  }
  auto udp = OpenUdpPort(options);
  if (!udp.ok()) return udp.status();
  return OverPort(udp.take(), options);
}

}  // namespace

Result<std::unique_ptr<Transport>> OpenTransport(const RuntimeOptions& options, RoceUse* roce) {
  RoceUse found;
  auto network = OpenNetwork(options, found);
  if (roce != nullptr) *roce = std::move(found);
  if (!network.ok() || !options.shm) return network;
  return WithSharedMemory(network.take());
}

std::string DescribeDevices(const RuntimeOptions& options) {
  const auto plugin = Plugin(options);
  if (!plugin.ok()) return plugin.status().message();
  return plugin.value()->describe_devices(Rdma(options));
}

}  // namespace rocecoll
