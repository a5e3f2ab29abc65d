// SPDX-License-Identifier: Apache-2.0
// The /sys of an invented machine, in a directory: PCI functions, NICs on them, and what the device
// list says about these.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "transport/verbs/nic_place.h"
#include "transport/verbs/port_choice.h"

namespace rocecoll {

class SysfsTree {
 public:
  SysfsTree() {
    std::string name = testing::TempDir() + "rocecoll_sysfs_XXXXXX";
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    // Names in the tree are compared with what the kernel resolves.
    root_ = std::filesystem::canonical(name);
    std::filesystem::create_directories(root_ / "class" / "infiniband");
  }
  ~SysfsTree() { std::filesystem::remove_all(root_); }
  SysfsTree(const SysfsTree&) = delete;
  SysfsTree& operator=(const SysfsTree&) = delete;

  std::string root() const { return root_; }

  // Adds a function at the end of a path such as "pci0000:10/0000:10:01.0/0000:11:00.0".
  void add_function(const std::string& path, int node, const std::string& processors) {
    const auto at = root_ / "devices" / path;
    write(at / "numa_node", std::to_string(node));
    write(at / "local_cpulist", processors);
    link(root_ / "bus" / "pci" / "devices" / at.filename(), at);
  }
  void add_virtual_function(const std::string& path, const std::string& of, int node,
                            const std::string& processors) {
    add_function(path, node, processors);
    link(root_ / "devices" / path / "physfn", root_ / "devices" / of);
  }
  // Adds a NIC on a function, or on a device below one (a subfunction).
  void add_nic(const std::string& name, const std::string& path, const std::string& rate) {
    const auto at = root_ / "devices" / path / "infiniband" / name;
    write(at / "ports" / "1" / "rate", rate);
    link(at / "device", root_ / "devices" / path);
    link(root_ / "class" / "infiniband" / name, at);
  }
  void add_soft_roce(const std::string& name) {
    const auto at = root_ / "devices" / "virtual" / "infiniband" / name;
    write(at / "ports" / "1" / "rate", "1000 Gb/sec (4X XDR)");
    write(at / "parent", "eth0");
    link(root_ / "class" / "infiniband" / name, at);
  }

  // What the device list would contain for an active port with these GIDs.
  DeviceInfo device(const std::string& name, std::vector<GidEntry> gids) const {
    PortInfo port;
    port.state = "ACTIVE";
    port.mtu_bytes = 4096;
    port.gids = std::move(gids);
    port.speed_gbit_s = ReadPortSpeed(root_, name, 1);
    return {name, "", {port}, ReadNicPlace(root_, name)};
  }

 private:
  static void write(const std::filesystem::path& path, const std::string& line) {
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << line << "\n";
  }
  static void link(const std::filesystem::path& at, const std::filesystem::path& to) {
    std::filesystem::create_directories(at.parent_path());
    std::filesystem::create_symlink(to, at);
  }

  std::filesystem::path root_;
};

}  // namespace rocecoll
