// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/port_choice.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "verbs/first_port.h"

namespace rocecoll {
namespace {

DeviceInfo Device(const std::string& name, std::vector<GidEntry> gids) {
  PortInfo port;
  port.state = "ACTIVE";
  port.mtu_bytes = 4096;
  port.gids = std::move(gids);
  return {name, "", {port}};
}

// The choice of ChoosePort(), as "device:port:index", or the reason for refusing.
std::string Choose(const std::vector<DeviceInfo>& devices, const RdmaOptions& options,
                   uint32_t host_interface = 0) {
  const Result<PortChoice> choice =
      ChoosePort(devices, options, {.host_interface = host_interface});
  if (!choice.ok()) return choice.status().message();
  return choice.value().device + ":" + std::to_string(choice.value().port) + ":" +
         std::to_string(choice.value().gid.index);
}

TEST(PortChoice, TakesTheEntryWithThisHostsAddressWhereverItStands) {
  const std::vector<DeviceInfo> devices{
      Device("rxa", {Entry(0, "fe80::1", 3), Entry(1, "10.1.0.1", 3), Entry(7, "fd10::1", 3)}),
      Device("rxb", {Entry(0, "fe80::2", 4), Entry(5, "10.1.0.2", 4), Entry(9, "fd10::2", 4)})};
  EXPECT_EQ(Choose(devices, {.host = "10.1.0.1"}, 3), "rxa:1:1");
  EXPECT_EQ(Choose(devices, {.host = "10.1.0.2"}, 4), "rxb:1:5");
  EXPECT_EQ(Choose(devices, {.host = "fd10::1"}, 3), "rxa:1:7");
  EXPECT_EQ(Choose(devices, {.host = "fd10::2"}, 4), "rxb:1:9");
}

TEST(PortChoice, GoesByTheInterfaceWhereTheAddressIsInNoTable) {
  const std::vector<DeviceInfo> devices{Device("mlx5_0", {Entry(3, "192.0.2.1", 2)}),
                                        Device("mlx5_1", {Entry(3, "192.0.2.2", 5)})};
  EXPECT_EQ(Choose(devices, {.host = "198.51.100.7"}, 5), "mlx5_1:1:3");
  // Takes the first of equals, because no interface is known, or it belongs to no device.
  EXPECT_EQ(Choose(devices, {.host = "198.51.100.7"}, 0), "mlx5_0:1:3");
  EXPECT_EQ(Choose(devices, {.host = "198.51.100.7"}, 8), "mlx5_0:1:3");
  EXPECT_EQ(Choose(devices, {}), "mlx5_0:1:3");
}

TEST(PortChoice, PrefersGlobalToLinkLocalAndTheFamilyOfTheHost) {
  const std::vector<DeviceInfo> both{
      Device("d", {Entry(0, "fe80::1"), Entry(2, "2001:db8::5"), Entry(4, "192.0.2.9")})};
  EXPECT_EQ(Choose(both, {.host = "198.51.100.7"}), "d:1:4");
  EXPECT_EQ(Choose(both, {.host = "2001:db8::77"}), "d:1:2");
  EXPECT_EQ(Choose(both, {}), "d:1:4");
  const std::vector<DeviceInfo> local{
      Device("d", {Entry(0, "fe80::1"), Entry(1, "169.254.3.4"), Entry(6, "192.0.2.9")})};
  EXPECT_EQ(Choose(local, {.host = "2001:db8::77"}), "d:1:6");
  EXPECT_EQ(
      Choose({Device("d", {Entry(0, "fe80::1"), Entry(1, "169.254.3.4")})}, {.host = "192.0.2.1"}),
      "d:1:1");
  EXPECT_EQ(Choose({Device("d", {Entry(0, "fe80::1")})}, {.host = "192.0.2.1"}), "d:1:0");
}

TEST(PortChoice, TakesRoceV2Only) {
  const std::vector<DeviceInfo> devices{
      Device("d", {Entry(0, "fe80::1", 2, GidType::kRoceV1), Entry(1, "fe80::1", 2),
                   Entry(2, "192.0.2.1", 2, GidType::kRoceV1), Entry(3, "192.0.2.1", 2)})};
  EXPECT_EQ(Choose(devices, {.host = "192.0.2.1"}, 2), "d:1:3");
  const std::string refused =
      Choose({Device("d", {Entry(0, "192.0.2.1", 2, GidType::kRoceV1)})}, {.host = "192.0.2.1"}, 2);
  EXPECT_NE(refused.find("d port 1: has no RoCE v2 GID"), std::string::npos) << refused;
  EXPECT_NE(refused.find("GID 0 (192.0.2.1, RoCE v1)"), std::string::npos) << refused;
}

TEST(PortChoice, SkipsEntriesThatAnAddressVectorCannotName) {
  EXPECT_EQ(
      Choose({Device("d", {Entry(0, "fe80::1"), Entry(256, "192.0.2.1")})}, {.host = "192.0.2.1"}),
      "d:1:0");
}

TEST(PortChoice, ValidatesAnIndexThatIsAskedFor) {
  const std::vector<DeviceInfo> devices{Device(
      "d",
      {Entry(0, "fe80::1"), Entry(2, "192.0.2.1", 2, GidType::kRoceV1), Entry(3, "192.0.2.1")})};
  EXPECT_EQ(Choose(devices, {.host = "192.0.2.1", .gid_index = 0}), "d:1:0");
  EXPECT_EQ(Choose(devices, {.host = "192.0.2.1", .gid_index = 3}), "d:1:3");
  for (int index : {1, 2, 17}) {
    const std::string refused = Choose(devices, {.gid_index = index});
    EXPECT_NE(refused.find("at the index asked for, " + std::to_string(index)), std::string::npos)
        << refused;
    EXPECT_NE(refused.find("GID 3 (192.0.2.1, RoCE v2)"), std::string::npos) << refused;
  }
}

TEST(PortChoice, HonoursTheDevicesAskedForAndTheirOrder) {
  const std::vector<DeviceInfo> devices{Device("mlx5_0", {Entry(3, "192.0.2.1", 2)}),
                                        Device("mlx5_1", {Entry(3, "192.0.2.2", 5)}),
                                        Device("rxe0", {Entry(1, "10.0.0.1", 7)})};
  EXPECT_EQ(Choose(devices, {.hca = "mlx5_1,mlx5_0"}), "mlx5_1:1:3");
  EXPECT_EQ(Choose(devices, {.hca = "^mlx5"}), "rxe0:1:1");
  EXPECT_EQ(Choose(devices, {.hca = "mlx5", .host = "10.0.0.1"}, 7), "mlx5_0:1:3");
  EXPECT_EQ(Choose(devices, {.hca = "mlx5", .host = "192.0.2.2"}, 5), "mlx5_1:1:3");
  const std::string refused = Choose(devices, {.hca = "=mlx5"});
  EXPECT_NE(refused.find("mlx5_0 port 1: left out by the devices asked for, \"=mlx5\""),
            std::string::npos)
      << refused;
}

TEST(PortChoice, TakesTheActiveEthernetPort) {
  DeviceInfo device = Device("d", {Entry(1, "192.0.2.1")});
  device.ports.push_back(device.ports[0]);
  device.ports.push_back(device.ports[0]);
  device.ports[1].number = 2;
  device.ports[2].number = 3;
  device.ports[0].ethernet = false;
  device.ports[1].active = false;
  device.ports[1].state = "DOWN";
  EXPECT_EQ(Choose({device}, {.host = "192.0.2.1"}), "d:3:1");
  EXPECT_EQ(Choose({device}, {.hca = "d:3"}), "d:3:1");
  const std::string refused =
      Choose({device, {"broken", "cannot open the device: why", {}}}, {.hca = "d:1,d:2,broken"});
  EXPECT_NE(refused.find("d port 1: is InfiniBand"), std::string::npos) << refused;
  EXPECT_NE(refused.find("d port 2: is not active (DOWN)"), std::string::npos) << refused;
  EXPECT_NE(refused.find("d port 3: left out"), std::string::npos) << refused;
  EXPECT_NE(refused.find("broken: cannot open the device: why"), std::string::npos) << refused;
}

TEST(PortChoice, SaysThatThereIsNoDeviceAndWhatToDo) {
  const Result<PortChoice> none = ChoosePort({}, {}, {});
  ASSERT_EQ(none.status().code(), StatusCode::kUnsupported);
  for (const char* word : {"no RDMA device", "rdma-core", "/dev/infiniband", "rdma link add"}) {
    EXPECT_NE(none.status().message().find(word), std::string::npos) << word;
  }
  EXPECT_EQ(DescribePorts({}, {}, {}), none.status().message());
}

TEST(PortChoice, DescribesEveryPort) {
  DeviceInfo down = Device("c", {Entry(1, "192.0.2.3")});
  down.ports[0].active = false;
  down.ports[0].state = "DOWN";
  EXPECT_EQ(DescribePorts(
                {Device("a", {Entry(1, "192.0.2.1")}), Device("b", {Entry(4, "192.0.2.2")}), down},
                {.host = "192.0.2.2", .max_mtu_bytes = 1500}, {}),
            "a port 1, GID 1 (192.0.2.1, RoCE v2), MTU 1024: usable: for local ranks 1, 3, 5, ...\n"
            "b port 1, GID 4 (192.0.2.2, RoCE v2), MTU 1024: chosen: for local ranks 0, 2, 4, ...\n"
            "c port 1: is not active (DOWN); bring its network interface up");
}

TEST(PortChoice, CapsTheMtuAtAPowerOfTwo) {
  const std::vector<DeviceInfo> devices{Device("d", {Entry(1, "192.0.2.1")})};
  const auto mtu = [&](size_t limit) {
    return ChoosePort(devices, {.max_mtu_bytes = limit}, {}).value().mtu_bytes;
  };
  EXPECT_EQ(mtu(256), 256u);
  EXPECT_EQ(mtu(1500), 1024u);
  EXPECT_EQ(mtu(4095), 2048u);
  EXPECT_EQ(mtu(4096), 4096u);
  EXPECT_EQ(mtu(65536), 4096u);
}

TEST(PortChoice, RefusesOptionsThatNoDeviceCouldMeet) {
  RdmaOptions bad_host{.host = "localhost"};
  RdmaOptions bad_hca{.hca = "mlx5_0:"};
  RdmaOptions bad_level;
  bad_level.service_level = 8;
  RdmaOptions bad_timeout;
  bad_timeout.timeout = 32;
  RdmaOptions bad_retries;
  bad_retries.retry_count = 8;
  RdmaOptions bad_mtu{.max_mtu_bytes = 255};
  for (const RdmaOptions& options :
       {bad_host, bad_hca, bad_level, bad_timeout, bad_retries, bad_mtu}) {
    const Status status = ChoosePort({}, options, {}).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status.message();
    EXPECT_NE(status.message().find("accepted"), std::string::npos) << status.message();
  }
}

}  // namespace
}  // namespace rocecoll
