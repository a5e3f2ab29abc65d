// SPDX-License-Identifier: Apache-2.0
// Which port each rank of a host takes, on machines with an invented sysfs.
#include "transport/verbs/port_deal.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "transport/verbs/port_choice.h"
#include "verbs/first_port.h"
#include "verbs/sysfs_tree.h"

namespace rocecoll {
namespace {

constexpr uint32_t kHostInterface = 2;

// Eight rails of 400 Gbit/s behind PCI switches, four on each NUMA node, each with an accelerator
// on the same switch, and a front-end NIC of 25 Gbit/s that has the host's address.
struct RailMachine {
  RailMachine() {
    for (uint32_t rail = 0; rail < 8; ++rail) {
      const bool second = rail >= 4;
      const std::string bus = std::to_string(rail + 1);
      const std::string root =
          second ? "pci0000:80/0000:80:0" + bus + ".0/" : "pci0000:00/0000:00:0" + bus + ".0/";
      const std::string bridge = root + "0000:" + bus + "0:00.0/";
      const std::string nic = bridge + "0000:" + bus + "1:00.0/0000:" + bus + "2:00.0";
      const std::string gpu = bridge + "0000:" + bus + "1:01.0/0000:" + bus + "3:00.0";
      tree.add_function(nic, second ? 1 : 0, second ? kSecond : kFirst);
      tree.add_function(gpu, second ? 1 : 0, second ? kSecond : kFirst);
      // Names in text order are not in the order of their numbers: mlx5_10 must come after mlx5_9.
      const std::string name = "mlx5_" + std::to_string(rail + 3);
      tree.add_nic(name, nic, "400 Gb/sec (4X NDR)");
      devices.insert(devices.begin(),
                     tree.device(name, {Entry(3, "10.0." + bus + ".1", rail + 10)}));
    }
    tree.add_function("pci0000:00/0000:00:1f.0", 0, kFirst);
    tree.add_nic("mlx5_0", "pci0000:00/0000:00:1f.0", "25 Gb/sec (1X EDR)");
    devices.push_back(tree.device("mlx5_0", {Entry(3, "192.0.2.1", kHostInterface)}));
  }

  static constexpr char kFirst[] = "0-31,64-95";
  static constexpr char kSecond[] = "32-63,96-127";
  SysfsTree tree;
  std::vector<DeviceInfo> devices;
};

struct Process {
  uint32_t local_rank = 0;
  std::string processors = "0-127";
  std::string accelerator = "";
};

std::string Choose(const SysfsTree& tree, const std::vector<DeviceInfo>& devices,
                   const Process& rank, const std::string& hca = "") {
  RdmaOptions options;
  options.hca = hca;
  options.host = "192.0.2.1";
  options.local_rank = rank.local_rank;
  options.accelerator = rank.accelerator;
  ProcessPlace process = ReadProcessPlace(tree.root(), options);
  EXPECT_FALSE(process.processors.empty());
  process.processors = ParseProcessors(rank.processors);
  process.host_interface = kHostInterface;
  const Result<PortChoice> choice = ChoosePort(devices, options, process);
  return choice.ok() ? choice.value().device + ": " + choice.value().why
                     : choice.status().message();
}

std::string Device(const std::string& choice) { return choice.substr(0, choice.find(':')); }

TEST(PortDeal, EachRankOfAHostTakesARailOfItsOwn) {
  const RailMachine machine;
  for (uint32_t rank = 0; rank < 16; ++rank) {
    EXPECT_EQ(Device(Choose(machine.tree, machine.devices, {rank})),
              "mlx5_" + std::to_string(rank % 8 + 3));
  }
  EXPECT_EQ(Choose(machine.tree, machine.devices, {9}),
            "mlx5_4: the fastest: 400 Gbit/s, for local ranks 1, 9, 17, ...");
}

TEST(PortDeal, ARankThatIsPinnedTakesARailOfItsNode) {
  const RailMachine machine;
  for (uint32_t rank = 0; rank < 8; ++rank) {
    const std::string own = std::to_string(rank < 4 ? rank : rank + 28);
    EXPECT_EQ(Device(Choose(machine.tree, machine.devices, {rank, own})),
              "mlx5_" + std::to_string(rank + 3));
  }
  EXPECT_EQ(Choose(machine.tree, machine.devices, {0, "100"}),
            "mlx5_7: the fastest: 400 Gbit/s, near this process's processors, for local ranks 0, "
            "4, 8, ...");
}

TEST(PortDeal, AnAcceleratorsOwnRailComesBeforeTheProcessors) {
  const RailMachine machine;
  EXPECT_EQ(Choose(machine.tree, machine.devices, {0, "0", "0000:63:00.0"}),
            "mlx5_8: the fastest: 400 Gbit/s, near this process's accelerator");
  // An accelerator that does not exist has no influence.
  EXPECT_EQ(Device(Choose(machine.tree, machine.devices, {1, "0-127", "0000:ff:00.0"})), "mlx5_4");
}

TEST(PortDeal, TheDevicesThatAreNamedCountAndNotTheHostsAddressOrTheirSpeed) {
  const RailMachine machine;
  const auto choose = [&](const Process& rank, const std::string& hca) {
    return Choose(machine.tree, machine.devices, rank, hca);
  };
  EXPECT_EQ(choose({0}, "mlx5_9,mlx5_0"), "mlx5_9: for local ranks 0, 2, 4, ...");
  EXPECT_EQ(choose({1}, "mlx5_9,mlx5_0"), "mlx5_0: for local ranks 1, 3, 5, ...");
  EXPECT_EQ(choose({0}, "=mlx5_0"), "mlx5_0: ");
  // Near devices come first, in the order of the list.
  EXPECT_EQ(Device(choose({0, "32"}, "mlx5_4,mlx5_9,mlx5_8")), "mlx5_9");
  EXPECT_EQ(Device(choose({1, "32"}, "mlx5_4,mlx5_9,mlx5_8")), "mlx5_8");
  // A prefix selects the fastest device that it names, and an exclusion names no device.
  EXPECT_EQ(Device(choose({0}, "mlx5")), "mlx5_3");
  EXPECT_EQ(Device(choose({0}, "^=mlx5_3")), "mlx5_4");
}

// The names of the devices that a rank takes, beginning with its first one.
std::vector<std::string> ChooseAll(const RailMachine& machine, uint32_t local_rank,
                                   uint32_t local_ranks, const std::string& hca) {
  RdmaOptions options;
  options.hca = hca;
  options.local_rank = local_rank;
  options.local_ranks = local_ranks;
  const auto choices = ChoosePorts(machine.devices, options, {});
  std::vector<std::string> names;
  for (const PortChoice& choice : choices.value()) names.push_back(choice.device);
  return names;
}

TEST(PortDeal, ARankTakesSeveralThatAreNamedIfThereAreEnoughForAll) {
  using Names = std::vector<std::string>;
  const RailMachine machine;
  EXPECT_EQ(ChooseAll(machine, 0, 1, "mlx5_9,mlx5_4"), (Names{"mlx5_9", "mlx5_4"}));
  EXPECT_EQ(ChooseAll(machine, 0, 1, "mlx5"), (Names{"mlx5_3", "mlx5_4", "mlx5_5", "mlx5_6"}))
      << "the most that a process takes";
  EXPECT_EQ(ChooseAll(machine, 0, 2, "mlx5"), (Names{"mlx5_3", "mlx5_5", "mlx5_7", "mlx5_9"}));
  EXPECT_EQ(ChooseAll(machine, 1, 2, "mlx5"), (Names{"mlx5_4", "mlx5_6", "mlx5_8", "mlx5_10"}));
  EXPECT_EQ(ChooseAll(machine, 2, 3, "mlx5"), (Names{"mlx5_5", "mlx5_8"}));
  EXPECT_EQ(ChooseAll(machine, 5, 8, "mlx5"), Names{"mlx5_8"});
  // The devices are not named, or the number of local ranks is unknown.
  EXPECT_EQ(ChooseAll(machine, 0, 1, ""), Names{"mlx5_3"});
  EXPECT_EQ(ChooseAll(machine, 0, 1, "^mlx5_0"), Names{"mlx5_3"});
  EXPECT_EQ(ChooseAll(machine, 1, 0, "mlx5_3,mlx5_4"), Names{"mlx5_4"});
  RdmaOptions options;
  options.hca = "=mlx5_3,mlx5_4,mlx5_5";
  options.local_ranks = 1;
  const std::string told = DescribePorts(machine.devices, options, {});
  EXPECT_NE(told.find("chosen: for local rank 0, of whose 3 ports it is number 2"), told.npos)
      << told;
}

TEST(PortDeal, AmongEqualPortsTheHostsAddressIsFirst) {
  SysfsTree tree;
  std::vector<DeviceInfo> devices;
  for (const char* function : {"0", "1"}) {
    const std::string path = std::string("pci0000:00/0000:05:00.") + function;
    tree.add_function(path, -1, "0-7");
    tree.add_nic(std::string("mlx5_") + function, path, "100 Gb/sec (4X EDR)");
  }
  devices.push_back(tree.device("mlx5_0", {Entry(3, "198.51.100.1", 9)}));
  devices.push_back(tree.device("mlx5_1", {Entry(3, "192.0.2.1", kHostInterface)}));
  EXPECT_EQ(Device(Choose(tree, devices, {0, "0-7"})), "mlx5_1");
  EXPECT_EQ(Device(Choose(tree, devices, {1, "0-7"})), "mlx5_0");
}

TEST(PortDeal, AFastPortWithoutARoutedAddressIsLeftOut) {
  SysfsTree tree;
  tree.add_function("pci0000:00/0000:05:00.0", 0, "0-7");
  tree.add_function("pci0000:00/0000:06:00.0", 0, "0-7");
  tree.add_nic("mlx5_0", "pci0000:00/0000:05:00.0", "400 Gb/sec (4X NDR)");
  tree.add_nic("mlx5_1", "pci0000:00/0000:06:00.0", "25 Gb/sec (1X EDR)");
  const std::vector<DeviceInfo> devices{tree.device("mlx5_0", {Entry(0, "fe80::1")}),
                                        tree.device("mlx5_1", {Entry(0, "192.0.2.1")})};
  EXPECT_EQ(Choose(tree, devices, {}), "mlx5_1: its address is routed");
}

TEST(PortDeal, TheFunctionsOfANicCountOnce) {
  SysfsTree tree;
  const std::string physical = "pci0000:00/0000:05:00.0";
  tree.add_function(physical, 0, "0-7");
  tree.add_function("pci0000:00/0000:05:00.1", 0, "0-7");
  tree.add_virtual_function("pci0000:00/0000:05:00.2", physical, 0, "0-7");
  tree.add_virtual_function("pci0000:00/0000:05:00.3", physical, 0, "0-7");
  const std::string rate = "200 Gb/sec (4X HDR)";
  tree.add_nic("mlx5_0", "pci0000:00/0000:05:00.2", rate);
  tree.add_nic("mlx5_1", "pci0000:00/0000:05:00.3", rate);
  tree.add_nic("mlx5_2", physical, rate);
  tree.add_nic("mlx5_3", physical + "/mlx5_core.sf.4", rate);
  tree.add_nic("mlx5_4", "pci0000:00/0000:05:00.1", rate);
  std::vector<DeviceInfo> devices;
  for (const char* name : {"mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3", "mlx5_4"}) {
    devices.push_back(tree.device(name, {Entry(1, "10.0.0." + std::string(name).substr(5))}));
  }
  for (const auto& [rank, device] : {std::pair(0u, "mlx5_2"), {1u, "mlx5_4"}, {2u, "mlx5_2"}}) {
    EXPECT_EQ(Device(Choose(tree, devices, {rank})), device);
  }
  // In a container, the physical function may be missing.
  devices.resize(2);
  EXPECT_EQ(Choose(tree, devices, {1}), "mlx5_0: ");
  EXPECT_EQ(Choose(tree, devices, {1}, "=mlx5_1"), "mlx5_1: ");
}

TEST(PortDeal, ABondAndItsVlansAreOneDevice) {
  SysfsTree tree;
  tree.add_function("pci0000:00/0000:05:00.0", 0, "0-7");
  tree.add_nic("mlx5_bond_0", "pci0000:00/0000:05:00.0", "200 Gb/sec (4X HDR)");
  const std::vector<DeviceInfo> devices{tree.device(
      "mlx5_bond_0", {Entry(0, "fe80::1", 7), Entry(1, "198.51.100.1", 7),
                      Entry(3, "fe80::1", kHostInterface), Entry(5, "192.0.2.1", kHostInterface)})};
  RdmaOptions options;
  options.host = "192.0.2.1";
  const auto gid_for = [&](const ProcessPlace& process) {
    return ChoosePort(devices, options, process).value().gid.index;
  };
  EXPECT_EQ(gid_for({}), 5u);
  options.host = "198.51.100.9";  // an address of the VLAN that the table does not have
  EXPECT_EQ(gid_for({.host_interface = kHostInterface}), 5u);
  options.host = "198.51.100.1";
  EXPECT_EQ(gid_for({.host_interface = 7}), 1u);
}

TEST(PortDeal, SoftRoceIsTakenWhereItIsNamedOrAllowedAndNoNicIsThere) {
  SysfsTree tree;
  tree.add_soft_roce("rxe0");
  tree.add_function("pci0000:00/0000:05:00.0", 0, "0-7");
  tree.add_nic("mlx5_0", "pci0000:00/0000:05:00.0", "25 Gb/sec (1X EDR)");
  const DeviceInfo rxe = tree.device("rxe0", {Entry(1, "192.0.2.1", kHostInterface)});
  const DeviceInfo nic = tree.device("mlx5_0", {Entry(1, "198.51.100.1")});
  EXPECT_TRUE(rxe.place.software);
  EXPECT_FALSE(nic.place.software);
  EXPECT_EQ(Choose(tree, {rxe, nic}, {}), "mlx5_0: a NIC");
  EXPECT_EQ(Choose(tree, {rxe}, {}), "rxe0: ");
  EXPECT_EQ(Device(Choose(tree, {rxe, nic}, {}, "rxe0,mlx5_0")), "rxe0");
  RdmaOptions options;
  options.software = false;
  const Status status = ChoosePort({rxe}, options, {}).status();
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_NE(status.message().find("rxe0 port 1: is Soft-RoCE"), std::string::npos)
      << status.message();
  EXPECT_NE(status.message().find("ROCECOLL_IB_HCA=rxe0"), std::string::npos) << status.message();
  options.hca = "^mlx5";  // this excludes devices, and names none
  EXPECT_FALSE(ChoosePort({rxe}, options, {}).ok());
  options.hca = "rxe";
  EXPECT_TRUE(ChoosePort({rxe}, options, {}).ok());
}

TEST(PortDeal, EachPortSaysForWhomItIsOrWhyForNobody) {
  const RailMachine machine;
  RdmaOptions options;
  options.hca = "^mlx5_5,mlx5_6";
  const std::string text =
      DescribePorts(machine.devices, options, {.processors = ParseProcessors("32")});
  for (const char* line :
       {"mlx5_7 port 1, GID 3 (10.0.5.1, RoCE v2), MTU 4096: chosen: the fastest: 400 Gbit/s, near "
        "this process's processors, for local ranks 0, 4, 8, ...\n",
        "mlx5_10 port 1, GID 3 (10.0.8.1, RoCE v2), MTU 4096: usable: the fastest: 400 Gbit/s, "
        "near this process's processors, for local ranks 3, 7, 11, ...\n",
        "mlx5_3 port 1, GID 3 (10.0.1.1, RoCE v2), MTU 4096: usable: farther from this process's "
        "processors\n",
        "mlx5_5 port 1: left out by the devices asked for, \"^mlx5_5,mlx5_6\"\n",
        "mlx5_0 port 1, GID 3 (192.0.2.1, RoCE v2), MTU 4096: usable: slower than 400 Gbit/s"}) {
    EXPECT_NE(text.find(line), std::string::npos) << text;
  }
}

TEST(PortDeal, ListsOfProcessorsAreReadAsSysfsWritesThem) {
  EXPECT_EQ(ParseProcessors("0-2,8"), (Processors{0, 1, 2, 8}));
  EXPECT_EQ(ParseProcessors("5"), (Processors{5}));
  for (const char* text : {"", "x", "1-", "1;2", "99999999", "3 4"}) {
    EXPECT_EQ(ParseProcessors(text), Processors{}) << text;
  }
}

}  // namespace
}  // namespace rocecoll
