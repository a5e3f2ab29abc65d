// SPDX-License-Identifier: Apache-2.0
#include "runtime/option_table.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <type_traits>
#include <utility>

#include "base/named_status.h"
#include "base/text.h"
#include "runtime/resolve_autos.h"

namespace rocecoll {
namespace {

// Names of congestion controls.
constexpr const char* kModel = "model";
constexpr const char* kCubic = "cubic";

double NanosecondsIn(const std::string& unit) { return unit == "us" ? 1e3 : 1e9; }

template <typename Field>
OptionValue Load(const Field& field, const std::string& unit) {
  if constexpr (std::is_same_v<Field, Duration>) {
    return static_cast<double>(field.count()) / NanosecondsIn(unit);
  } else if constexpr (std::is_same_v<Field, FaultOptions>) {
    return std::string();
  } else if constexpr (std::is_same_v<Field, CongestionControl>) {
    return std::string(field == CongestionControl::kCubic ? kCubic : kModel);
  } else if constexpr (std::is_integral_v<Field> && !std::is_same_v<Field, bool>) {
    return static_cast<uint64_t>(field);
  } else {
    return field;
  }
}

template <typename Field>
void Store(Field& field, const OptionValue& value, const std::string& unit) {
  if constexpr (std::is_same_v<Field, Duration>) {
    field = Duration(std::llround(std::get<double>(value) * NanosecondsIn(unit)));
  } else if constexpr (std::is_same_v<Field, CongestionControl>) {
    field = std::get<std::string>(value) == kCubic ? CongestionControl::kCubic
                                                   : CongestionControl::kModel;
  } else if constexpr (std::is_same_v<Field, FaultOptions>) {
    field = ParseFaults(std::get<std::string>(value)).value();
  } else if constexpr (std::is_integral_v<Field> && !std::is_same_v<Field, bool>) {
    field = static_cast<Field>(std::get<uint64_t>(value));
  } else {
    field = std::get<Field>(value);
  }
}

// A row for the runtime. `field` yields its field of given options; the default is what new options
// have there.
template <typename Field>
Option Row(const char* name, OptionKind kind, Field field, const char* unit, std::string doc) {
  RuntimeOptions defaults;
  return {name,
          std::move(kind),
          Load(field(defaults), unit),
          unit,
          std::move(doc),
          [field, unit](RuntimeOptions& options, const OptionValue& value) {
            Store(field(options), value, unit);
          }};
}

// Ranks with different values would not understand each other, or call a collective differently.
Option Agreed(Option option) {
  option.must_agree = true;
  option.doc += "; the same on all ranks";
  return option;
}

// The same, but auto by default, which leaves the field as it is until ResolveAutos().
template <typename Field>
Option AutoRow(const char* name, const OptionKind& kind, Field field, const char* unit,
               std::string doc) {
  Option option = Row(name, OrAuto(kind), field, unit, std::move(doc));
  option.default_value = std::monostate();
  option.set = [set = std::move(option.set)](RuntimeOptions& options, const OptionValue& value) {
    if (!std::holds_alternative<std::monostate>(value)) set(options, value);
  };
  return option;
}

// The default of `field` as text.
template <typename Field>
std::string DefaultText(Field field, const char* unit) {
  RuntimeOptions defaults;
  return TextOf(Load(field(defaults), unit));
}

// The field that a path stands for.
#define ROCECOLL_FIELD(path) ([](RuntimeOptions& o) -> auto& { return o.path; })

// A row that only Python uses.
Option PythonRow(const char* name, OptionKind kind, const char* standard, std::string doc) {
  return {name, std::move(kind), std::string(standard), "", std::move(doc), nullptr};
}

std::vector<Option> GeneralOptions() {
  return {
      Agreed(
          Row("transport", Choice({"auto", "udp", "ud", "rc"}), ROCECOLL_FIELD(transport), "",
              "what carries data between hosts: udp, RoCE's unreliable datagrams (ud) or reliable "
              "connections (rc); auto: rc between ranks that both have RoCE, otherwise UDP")),
      Agreed(AutoRow(
          "shm", Switch(), ROCECOLL_FIELD(shm), "",
          "shared memory between ranks of one host; auto: yes, unless the transport is set to udp "
          "or faults are injected")),
      PythonRow("socket_ifname",
                AnyText("names or prefixes of interfaces separated by commas, =NAME for exactly "
                        "one, ^NAME to exclude, or networks such as 10.0.0.0/8"),
                "",
                "interface whose address the other hosts are given; empty: the one on the route "
                "to them"),
      PythonRow("socket_family", Choice({"auto", "ipv4", "ipv6"}), "auto",
                "address family; auto: the family of the chosen interface's route"),
      Row("port_range", Ports(), ROCECOLL_FIELD(port_range), "",
          "UDP ports to choose from, one per process; 0: any free port"),
      // The largest eager message depends on it.
      Agreed(Row(
          "udp_max_datagram_bytes", Integer(576, 65507), ROCECOLL_FIELD(max_datagram_bytes),
          "bytes",
          "largest datagram; the MTU of the route to a peer or its receive buffer may lower it")),
      Row("udp_offload", Switch(), ROCECOLL_FIELD(segmentation_offload), "",
          "let the kernel segment and coalesce datagrams (UDP_SEGMENT, UDP_GRO) if it can"),
      Row("socket_buffer_bytes", Integer(65536, 1 << 30), ROCECOLL_FIELD(socket_buffer_bytes),
          "bytes", "send and receive buffer of the socket; the kernel's limits may lower it"),
      Row("dscp", Integer(0, 63), ROCECOLL_FIELD(dscp), "",
          "differentiated services code point of UDP packets; for RoCE see ib_tc"),
      Row("ecn", Switch(), ROCECOLL_FIELD(ecn), "",
          "allow queues to mark UDP packets (ECN) instead of dropping them; set 0 if a network "
          "drops "
          "ECN-capable packets"),
      Row("congestion", Choice({kModel, kCubic}), ROCECOLL_FIELD(connection.congestion), "",
          "congestion control of UDP between hosts: model keeps queues short and distinguishes "
          "random loss from full queues; cubic treats every loss as a full queue, as most TCP "
          "does"),
      Row("fault", Faults(), ROCECOLL_FIELD(fault), "",
          "faults to inject into the packets of UDP and ud, for tests, e.g. loss=0.05,seed=1"),
      AutoRow("peer_timeout", Number(0.1, 86400), ROCECOLL_FIELD(connection.peer_timeout), "s",
              "silence after which another rank counts as lost; auto: " +
                  DefaultText(ROCECOLL_FIELD(connection.peer_timeout), "s") +
                  " s over UDP alone, " + TextOf(Load(kRocePeerTimeout, "s")) +
                  " s where RoCE may be used"),
      AutoRow("spin_us", Number(0, 1e6), ROCECOLL_FIELD(progress.spin_time), "us",
              "time that a waiting rank polls before it blocks; auto: " +
                  DefaultText(ROCECOLL_FIELD(progress.spin_time), "us") +
                  " us if every local rank has a core, a few milliseconds more while nothing else "
                  "needs the core and it helps; otherwise 0"),
      Agreed(Row("eager_bytes", Integer(0, 65536), ROCECOLL_FIELD(messenger.eager_bytes), "bytes",
                 "messages up to this size are sent without asking the receiver first; 0: the "
                 "transport's default")),
      Agreed(Row("lane_bytes", Integer(4096, 1 << 30), ROCECOLL_FIELD(engine.lane_bytes), "bytes",
                 "large operations are pipelined in pieces of about this size")),
      Row("staging_bytes", Integer(1 << 20, uint64_t{1} << 40), ROCECOLL_FIELD(staging_bytes),
          "bytes",
          "pinned host memory for each accelerator, through which its tensors pass; rounded down "
          "to "
          "a power of two"),
      Agreed(PythonRow("algorithm", Algorithms(), "",
                       "algorithms to use, where they apply, instead of those chosen by size, e.g. "
                       "all_reduce:ring")),
      PythonRow("trace",
                AnyText("a path; %r or {rank} in it is the rank, which else goes before "
                        "the suffix"),
                "", "file for a Chrome trace of every operation, written at exit"),
      PythonRow("flight_recorder", AnyText("a path to which the rank is appended"), "",
                "file for torchfrtrace, written when a group fails, otherwise at exit"),
  };
}

std::vector<Option> RoceOptions() {
  return {
      Row("ib_hca",
          AnyText("names or prefixes of RDMA devices, each with an optional :PORT, separated by "
                  "commas; =NAME for exactly one, ^NAME to exclude"),
          ROCECOLL_FIELD(rdma.hca), "",
          "RDMA devices that rc, ud and auto may use, e.g. mlx5_0:1,mlx5_1 or ^rxe0; empty: the "
          "fastest and nearest, which the ranks of a host take in turn. If at least twice as many "
          "devices are named as the host has ranks, each rank uses several (not with ud)"),
      AutoRow("ib_gid_index", Integer(0, 255), ROCECOLL_FIELD(rdma.gid_index), "",
              "entry of the port's GID table; auto: RoCE v2 with the address of the interface"),
      Row("ib_tc", Integer(0, 255), ROCECOLL_FIELD(rdma.traffic_class), "",
          "traffic class of RoCE packets: DSCP times 4, plus the ECN bits"),
      Row("ib_sl", Integer(0, 7), ROCECOLL_FIELD(rdma.service_level), "",
          "service level of RoCE packets: their priority within the host and on VLANs"),
      Row("ib_timeout", Integer(1, 31), ROCECOLL_FIELD(rdma.timeout), "",
          "time before rc retransmits a packet: 4.096 us times 2 to this power"),
      Row("ib_retry_cnt", Integer(0, 7), ROCECOLL_FIELD(rdma.retry_count), "",
          "times that rc retransmits a packet before the connection fails; Soft-RoCE treats 7 as "
          "unlimited"),
      Row("ib_pkey", Integer(0, 65535), ROCECOLL_FIELD(rdma.pkey_index), "",
          "index into the port's table of partition keys"),
      Row("ib_mtu", IntegerChoice({256, 512, 1024, 2048, 4096}), ROCECOLL_FIELD(rdma.max_mtu_bytes),
          "bytes", "largest payload of a RoCE packet; the active MTU of either port may lower it"),
      Row("ib_qps_per_connection", Integer(1, 8), ROCECOLL_FIELD(rc.queue_pairs_per_connection), "",
          "queue pairs over which rc spreads large messages to a rank"),
      Row("ib_ece", Switch(), ROCECOLL_FIELD(rdma.extensions), "",
          "let rc connections use what NICs of the same vendor support beyond the specification "
          "(enhanced connection establishment)"),
      Row("ib_adaptive_routing", Switch(), ROCECOLL_FIELD(rc.adaptive_routing), "",
          "set if the network routes RoCE adaptively: rc sends the completion of a message "
          "separately, so that its data packets may take any path"),
      Row("failover", Switch(), ROCECOLL_FIELD(rc.failover), "",
          "continue over UDP with ranks that RoCE no longer reaches; 0: fail"),
  };
}

Option DebugOption() {
  Option option = PythonRow(
      "debug", OrAuto(Choice({"off", "warn", "info"})), "",
      "how much to log about the network of this process: info adds the address, devices and "
      "transports that it uses, and why; to stderr, or through the program's logging; auto: the "
      "level that the program has set for logging.getLogger(\"rocecoll\"), otherwise warnings");
  option.default_value = std::monostate();
  option.process_wide = true;
  return option;
}

Option ReplaceOption() {
  Option option =
      PythonRow("replace", Backends(), "",
                "torch backends (gloo, nccl or both) whose process groups rocecoll takes over");
  option.process_wide = true;
  return option;
}

// Variables that users of NCCL and gloo set already, by option; the first that is set counts.
std::vector<std::pair<std::string_view, OptionAlias>> Aliases() {
  return {
      {"socket_ifname", SameWords("NCCL_SOCKET_IFNAME")},
      {"socket_ifname", InterfaceNames("GLOO_SOCKET_IFNAME")},
      {"socket_family", AddressFamily("NCCL_SOCKET_FAMILY")},
      {"ib_hca", SameWords("NCCL_IB_HCA")},
      {"ib_gid_index", WholeNumber("NCCL_IB_GID_INDEX")},
      {"ib_tc", WholeNumber("NCCL_IB_TC")},
      {"ib_sl", WholeNumber("NCCL_IB_SL")},
      {"ib_timeout", WholeNumber("NCCL_IB_TIMEOUT")},
      {"ib_retry_cnt", WholeNumber("NCCL_IB_RETRY_CNT")},
      {"ib_pkey", WholeNumber("NCCL_IB_PKEY")},
      {"ib_ece", WholeNumber("NCCL_IB_ECE_ENABLE")},
      {"ib_adaptive_routing", WholeNumber("NCCL_IB_ADAPTIVE_ROUTING")},
      {"debug", DebugLevel("NCCL_DEBUG")},
  };
}

std::vector<Option> InternalOptions() {
  return {
      Row("host", AnyText("a numeric address"), ROCECOLL_FIELD(host), "",
          "address that peers use, and whose interface RoCE prefers"),
      Row("roce_wanted", Switch(), ROCECOLL_FIELD(roce_wanted), "",
          "auto, or RDMA devices, were asked for by name: what refuses to work is told as a "
          "warning, and options that no device takes are errors"),
      Row("local_ranks", Integer(0, 1 << 20), ROCECOLL_FIELD(local_ranks), "",
          "ranks of this host, 0: not known"),
      Row("one_host", Switch(), ROCECOLL_FIELD(one_host), "",
          "all ranks are on this host, so that auto with shared memory needs no RoCE"),
      Row("local_rank", Integer(0, 1 << 20), ROCECOLL_FIELD(rdma.local_rank), "",
          "place among the ranks of this host, which take its RoCE ports in turn"),
      Row("accelerator", AnyText("a PCI address"), ROCECOLL_FIELD(rdma.accelerator), "",
          "device of this rank, whose nearest RoCE port it takes; empty: not known"),
      Row("plugin", AnyText("a path"), ROCECOLL_FIELD(plugin), "", "the plug-in for RoCE"),
      AutoRow("heartbeat_interval", Number(0.001, 86400),
              ROCECOLL_FIELD(connection.heartbeat_interval), "s", "silence before a ping"),
  };
}

#undef ROCECOLL_FIELD

const Option* Find(const std::vector<Option>& options, std::string_view name) {
  const auto found = std::ranges::find(options, name, &Option::name);
  return found == options.end() ? nullptr : &*found;
}

Status UnknownOption(const std::string& name) {
  std::string known;
  for (const Option& option : OptionTable()) known += (known.empty() ? "" : ", ") + option.name;
  return NamedStatus(StatusCode::kInvalidArgument,
                     "there is no option \"" + name + "\"; there are " + known);
}

}  // namespace

Result<OptionValue> Option::read(const OptionValue& given, const std::string& origin) const {
  const std::string text = TextOf(given);
  if (auto value = kind.parse(Trimmed(text))) return *std::move(value);
  const std::string why = kind.explain ? kind.explain(Trimmed(text)) : "";
  return Status(StatusCode::kInvalidArgument, origin + "='" + text + "': accepted is " +
                                                  kind.accepted + (why.empty() ? "" : "; " + why));
}

const std::vector<Option>& OptionTable() {
  static const std::vector<Option> table = [] {
    std::vector<Option> rows = GeneralOptions();
    std::ranges::move(RoceOptions(), std::back_inserter(rows));
    rows.push_back(DebugOption());
    rows.push_back(ReplaceOption());
    for (auto& [name, alias] : Aliases()) {
      std::ranges::find(rows, name, &Option::name)->aliases.push_back(std::move(alias));
    }
    return rows;
  }();
  return table;
}

const Option* FindOption(std::string_view name) { return Find(OptionTable(), name); }

Result<RuntimeOptions> MakeRuntimeOptions(const OptionValues& values) {
  static const std::vector<Option> internal = InternalOptions();
  RuntimeOptions options;
  OptionValues read;
  for (const auto& [name, given] : values) {
    const Option* option = FindOption(name);
    if (option == nullptr) option = Find(internal, name);
    if (option == nullptr) return UnknownOption(name);
    auto value = option->read(given, name);
    if (!value.ok()) return value.status();
    if (option->set) option->set(options, value.value());
    read[name] = value.take();
  }
  ResolveAutos(read, options);
  return options;
}

}  // namespace rocecoll
