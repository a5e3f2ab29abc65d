// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/nic_place.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <memory>
#include <system_error>

namespace rocecoll {
namespace {

namespace fs = std::filesystem;

constexpr uint32_t kMaxProcessors = 65536;

// The first line of a file; empty if there is no such file.
std::string ReadLine(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::optional<int> ReadNode(const fs::path& device) {
  const std::string text = ReadLine(device / "numa_node");
  int node = -1;
  std::from_chars(text.data(), text.data() + text.size(), node);
  return node < 0 ? std::nullopt : std::optional(node);
}

// "0000:17:00.1".
bool IsPciAddress(const std::string& name) {
  return std::count(name.begin(), name.end(), ':') == 2 && name.find('.') != std::string::npos;
}

// Drops what lies below the last PCI function, such as a subfunction's auxiliary device.
fs::path PciFunction(fs::path path) {
  while (path.has_relative_path() && !IsPciAddress(path.filename())) path = path.parent_path();
  return path.has_relative_path() ? path : fs::path();
}

fs::path Resolve(const fs::path& link) {
  std::error_code error;
  const fs::path path = fs::canonical(link, error);
  return error ? fs::path() : path;
}

Processors OwnProcessors() {
  for (size_t count = 1024; count <= kMaxProcessors; count *= 2) {
    const size_t bytes = CPU_ALLOC_SIZE(count);
    const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> mask(
        CPU_ALLOC(count), [](cpu_set_t* set) { CPU_FREE(set); });
    if (mask == nullptr) break;
    if (sched_getaffinity(0, bytes, mask.get()) != 0) continue;  // the kernel has more processors
    Processors own;
    for (uint32_t i = 0; i < count; ++i) {
      if (CPU_ISSET_S(i, bytes, mask.get())) own.insert(i);
    }
    return own;
  }
  return {};
}

uint32_t CommonBridges(const fs::path& a, const fs::path& b) {
  const auto apart = std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first;
  uint32_t bridges = 0;
  for (auto part = a.begin(); part != apart; ++part)
    bridges += part->string().find(':') != std::string::npos;
  return bridges;
}

}  // namespace

Processors ParseProcessors(std::string_view text) {
  Processors all;
  const auto take = [&text](uint32_t& number) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || number >= kMaxProcessors) return false;
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    return true;
  };
  while (!text.empty()) {
    uint32_t first = 0;
    if (!take(first)) return {};
    uint32_t last = first;
    if (text.starts_with('-')) {
      text.remove_prefix(1);
      if (!take(last)) return {};
    }
    for (uint32_t i = first; i <= last; ++i) all.insert(i);
    if (!text.empty() && text.front() != ',') return {};
    if (!text.empty()) text.remove_prefix(1);
  }
  return all;
}

NicPlace ReadNicPlace(const std::string& sysfs, const std::string& device) {
  NicPlace place;
  const fs::path entry = fs::path(sysfs) / "class" / "infiniband" / device;
  const fs::path function = Resolve(entry / "device");
  std::error_code error;
  // Soft-RoCE is on no bus. On older kernels rxe reports the place of its network interface, but it
  // also has a file `parent` with the name of that interface.
  place.software =
      fs::exists(entry, error) && (function.empty() || fs::exists(entry / "parent", error));
  if (function.empty() || place.software) return place;
  const fs::path pci = PciFunction(function);
  const fs::path owner = Resolve(pci / "physfn");
  place.pci_path = pci;
  place.physical = owner.empty() ? pci : owner;
  place.processors = ParseProcessors(ReadLine(pci / "local_cpulist"));
  place.node = ReadNode(pci);
  return place;
}

uint32_t ReadPortSpeed(const std::string& sysfs, const std::string& device, uint32_t port) {
  const fs::path entry = fs::path(sysfs) / "class" / "infiniband" / device;
  const std::string rate = ReadLine(entry / "ports" / std::to_string(port) / "rate");
  uint32_t gbit_s = 0;  // from text such as "400 Gb/sec (4X NDR)"
  std::from_chars(rate.data(), rate.data() + rate.size(), gbit_s);
  return gbit_s;
}

ProcessPlace ReadProcessPlace(const std::string& sysfs, const RdmaOptions& options) {
  ProcessPlace place;
  place.processors = OwnProcessors();
  if (options.accelerator.empty()) return place;
  const fs::path path = Resolve(fs::path(sysfs) / "bus" / "pci" / "devices" / options.accelerator);
  place.accelerator_path = path;
  if (!path.empty()) place.accelerator_node = ReadNode(path);
  return place;
}

uint32_t Nearness(const ProcessPlace& process, const NicPlace& nic) {
  if (!process.accelerator_path.empty()) {
    const uint32_t bridges = CommonBridges(process.accelerator_path, nic.pci_path);
    const bool same_node = process.accelerator_node && process.accelerator_node == nic.node;
    return 2 * bridges + (same_node ? 1 : 0);
  }
  if (nic.processors.empty()) return 1;  // unknown, or on no bus: counts as near as any other
  return std::ranges::any_of(
      nic.processors, [&](uint32_t processor) { return process.processors.contains(processor); });
}

}  // namespace rocecoll
