// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/port_choice.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "transport/verbs/hca_filter.h"
#include "transport/verbs/port_deal.h"

namespace rocecoll {
namespace {

constexpr size_t kMinMtuBytes = 256;
constexpr size_t kMaxMtuBytes = 4096;
constexpr uint32_t kMaxGidIndex = 255;  // ibv_ah_attr has 8 bits for it

using HostMerit = std::tuple<bool, bool, bool>;

// The criteria of the choice, read from the options.
struct Wish {
  HcaFilter filter;
  std::optional<Gid> host;
  uint32_t host_interface = 0;
  int gid_index = -1;
  std::string hca;
  size_t max_mtu_bytes = kMaxMtuBytes;
  bool software = true;
};

// A usable port, or the reason in `problem` why it is not usable.
struct Judgement {
  std::string problem;
  PortChoice choice;
  PortCandidate candidate;
};

std::string ToText(GidType type) {
  switch (type) {
    case GidType::kRoceV2:
      return "RoCE v2";
    case GidType::kRoceV1:
      return "RoCE v1";
    case GidType::kOther:
      return "not RoCE";
  }
  return "unknown";
}

std::string ToText(const GidEntry& entry) {
  return "GID " + std::to_string(entry.index) + " (" + ToText(entry.gid) + ", " +
         ToText(entry.type) + ")";
}

Status RefuseOption(const std::string& what, const std::string& accepted) {
  return Status(StatusCode::kInvalidArgument, what + "; accepted is " + accepted);
}

Result<Wish> ReadOptions(const RdmaOptions& options, uint32_t host_interface) {
  Result<HcaFilter> filter = HcaFilter::Parse(options.hca);
  if (!filter.ok()) return filter.status();
  Wish wish;
  wish.filter = filter.take();
  wish.hca = options.hca;
  wish.host_interface = host_interface;
  wish.gid_index = options.gid_index;
  wish.software = options.software || wish.filter.names_devices();
  if (!options.host.empty()) {
    wish.host = ParseGid(options.host);
    if (!wish.host) return RefuseOption("host \"" + options.host + "\"", "a numeric IP address");
  }
  if (options.service_level > 7) {
    return RefuseOption("service level " + std::to_string(options.service_level), "0 to 7");
  }
  if (options.timeout > 31) {
    return RefuseOption("RDMA timeout " + std::to_string(options.timeout),
                        "0 to 31 (4.096 us * 2^timeout; 0 is for ever)");
  }
  if (options.retry_count > 7) {
    return RefuseOption("RDMA retry count " + std::to_string(options.retry_count), "0 to 7");
  }
  if (options.max_mtu_bytes < kMinMtuBytes) {
    return RefuseOption("RDMA MTU of " + std::to_string(options.max_mtu_bytes) + " bytes",
                        std::to_string(kMinMtuBytes) + " or more");
  }
  for (size_t mtu = kMinMtuBytes; mtu <= std::min(options.max_mtu_bytes, kMaxMtuBytes); mtu *= 2) {
    wish.max_mtu_bytes = mtu;
  }
  return wish;
}

HostMerit MeritForHost(const Wish& wish, const GidEntry& entry) {
  const bool own = wish.host == entry.gid;
  const bool on_interface =
      wish.host_interface != 0 && entry.interface_index == wish.host_interface;
  const bool family = entry.gid.is_ipv4() == (!wish.host || wish.host->is_ipv4());
  return {own, on_interface, family};
}

// The tuples are compared as a whole, and larger is better: see the top of the header.
std::tuple<bool, bool, bool, bool> Merit(const Wish& wish, const GidEntry& entry) {
  const auto [own, on_interface, family] = MeritForHost(wish, entry);
  return {own, on_interface, !entry.gid.is_link_local(), family};
}

std::string ListGids(const PortInfo& port) {
  constexpr size_t kMaxListed = 8;
  if (port.gids.empty()) return "its GID table is empty";
  std::string text = "it has ";
  for (size_t i = 0; i < std::min(port.gids.size(), kMaxListed); ++i) {
    text += (i == 0 ? "" : ", ") + ToText(port.gids[i]);
  }
  return text + (port.gids.size() > kMaxListed ? ", ..." : "");
}

const GidEntry* BestGid(const Wish& wish, const PortInfo& port) {
  const GidEntry* best = nullptr;
  for (const GidEntry& entry : port.gids) {
    if (entry.type != GidType::kRoceV2 || entry.index > kMaxGidIndex) continue;
    if (wish.gid_index >= 0 && entry.index != static_cast<uint32_t>(wish.gid_index)) continue;
    if (best == nullptr || Merit(wish, entry) > Merit(wish, *best)) best = &entry;
  }
  return best;
}

Judgement Judge(const Wish& wish, const DeviceInfo& device, const PortInfo& port) {
  Judgement judged;
  const std::optional<size_t> entry = wish.filter.rank(device.name, port.number);
  const GidEntry* gid = BestGid(wish, port);
  if (!entry) {
    judged.problem = "left out by the devices asked for, \"" + wish.hca + "\"";
  } else if (device.place.software && !wish.software) {
    judged.problem =
        "is Soft-RoCE, a program that plays a NIC; ROCECOLL_IB_HCA=" + device.name + " takes it";
  } else if (!port.ethernet) {
    judged.problem = "is InfiniBand; RoCE needs an Ethernet port";
  } else if (!port.active) {
    judged.problem = "is not active (" + port.state + "); bring its network interface up";
  } else if (gid == nullptr && wish.gid_index >= 0) {
    judged.problem = "has no RoCE v2 GID at the index asked for, " +
                     std::to_string(wish.gid_index) + "; " + ListGids(port);
  } else if (gid == nullptr) {
    judged.problem =
        "has no RoCE v2 GID; " + ListGids(port) + "; give its network interface an IP address";
  } else {
    judged.choice = {device.name, port.number, *gid, std::min(port.mtu_bytes, wish.max_mtu_bytes),
                     ""};
    judged.candidate = {.device = device.name,
                        .port = port.number,
                        .speed_gbit_s = port.speed_gbit_s,
                        .place = device.place,
                        .entry = *entry,
                        .routed = !gid->gid.is_link_local(),
                        .host_merit = MeritForHost(wish, *gid)};
  }
  return judged;
}

// One judgement for each port, in the order of the devices.
std::vector<Judgement> JudgeAll(const Wish& wish, const std::vector<DeviceInfo>& devices,
                                const RdmaOptions& options, const ProcessPlace& process) {
  std::vector<Judgement> all;
  for (const DeviceInfo& device : devices) {
    for (const PortInfo& port : device.ports) all.push_back(Judge(wish, device, port));
  }
  std::vector<PortCandidate*> usable;
  for (Judgement& judged : all) {
    if (judged.problem.empty()) usable.push_back(&judged.candidate);
  }
  DealPorts(usable, process,
            {options.local_rank, options.local_ranks, wish.filter.names_devices()});
  return all;
}

std::string NoDevice() {
  return "there is no RDMA device. A NIC needs its kernel driver and libibverbs' provider for it "
         "(packages rdma-core and ibverbs-providers); a container needs /dev/infiniband; without "
         "a NIC, Soft-RoCE makes one: modprobe rdma_rxe; rdma link add rxe0 type rxe netdev eth0";
}

std::string Line(const Judgement& judged) {
  const PortCandidate& candidate = judged.candidate;
  const std::string words = candidate.words.empty() ? "" : ": " + candidate.words;
  return ToText(judged.choice) + ", MTU " + std::to_string(judged.choice.mtu_bytes) +
         (candidate.chosen ? ": chosen" : ": usable") + words;
}

std::string Lines(const std::vector<DeviceInfo>& devices,
                  const std::vector<Judgement>& judgements) {
  const Judgement* next = judgements.data();
  std::string text;
  const auto add = [&text](const std::string& line) { text += (text.empty() ? "" : "\n") + line; };
  for (const DeviceInfo& device : devices) {
    if (!device.problem.empty()) add(device.name + ": " + device.problem);
    for (const PortInfo& port : device.ports) {
      const Judgement& judged = *next++;
      const std::string name = device.name + " port " + std::to_string(port.number);
      add(judged.problem.empty() ? Line(judged) : name + ": " + judged.problem);
    }
  }
  return text;
}

}  // namespace

std::string ToText(const PortChoice& choice) {
  return choice.device + " port " + std::to_string(choice.port) + ", " + ToText(choice.gid);
}

Result<std::vector<PortChoice>> ChoosePorts(const std::vector<DeviceInfo>& devices,
                                            const RdmaOptions& options,
                                            const ProcessPlace& process) {
  const Result<Wish> wish = ReadOptions(options, process.host_interface);
  if (!wish.ok()) return wish.status();
  if (devices.empty()) return Status(StatusCode::kUnsupported, NoDevice());
  std::vector<Judgement> all = JudgeAll(wish.value(), devices, options, process);
  std::map<size_t, PortChoice> chosen;
  for (Judgement& judged : all) {
    if (!judged.candidate.chosen) continue;
    judged.choice.why = judged.candidate.words;
    chosen.emplace(*judged.candidate.chosen, judged.choice);
  }
  std::vector<PortChoice> choices;
  choices.reserve(chosen.size());
  for (auto& [rail, choice] : chosen) choices.push_back(std::move(choice));
  if (!choices.empty()) return choices;
  return Status(StatusCode::kUnsupported,
                "no port of an RDMA device is usable:\n" + Lines(devices, all));
}

std::string DescribePorts(const std::vector<DeviceInfo>& devices, const RdmaOptions& options,
                          const ProcessPlace& process) {
  const Result<Wish> wish = ReadOptions(options, process.host_interface);
  if (!wish.ok()) return wish.status().message();
  if (devices.empty()) return NoDevice();
  return Lines(devices, JudgeAll(wish.value(), devices, options, process));
}

}  // namespace rocecoll
