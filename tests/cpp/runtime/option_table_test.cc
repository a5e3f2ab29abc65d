// SPDX-License-Identifier: Apache-2.0
#include "runtime/option_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "runtime/resolve_autos.h"

namespace rocecoll {
namespace {

using namespace std::chrono_literals;

RuntimeOptions Made(const OptionValues& values) {
  auto options = MakeRuntimeOptions(values);
  EXPECT_TRUE(options.ok()) << options.status().message();
  return options.take();
}

OptionValues Values(const std::string& name, OptionValue value) {
  return {{name, std::move(value)}};
}

TEST(OptionTable, SetsFieldsFromValuesAndFromTheirText) {
  const OptionValues typed{{"udp_max_datagram_bytes", uint64_t{1400}},
                           {"udp_offload", false},
                           {"dscp", uint64_t{63}},
                           {"port_range", PortRange(5, 6)},
                           {"spin_us", 1.5},
                           {"peer_timeout", 2.0},
                           {"fault", "loss=0.05,delay_us=3,seed=7"},
                           {"congestion", "cubic"},
                           {"host", "::1"}};
  OptionValues texts;
  for (const auto& [name, value] : typed) texts[name] = " " + TextOf(value) + " ";
  for (const OptionValues& values : {typed, texts}) {
    const RuntimeOptions options = Made(values);
    EXPECT_EQ(options.max_datagram_bytes, 1400u);
    EXPECT_FALSE(options.segmentation_offload);
    EXPECT_EQ(options.dscp, 63);
    EXPECT_EQ(options.port_range, PortRange(5, 6));
    EXPECT_EQ(options.progress.spin_time, 1500ns);
    EXPECT_EQ(options.connection.peer_timeout, 2s);
    EXPECT_EQ(options.fault.loss, 0.05);
    EXPECT_EQ(options.fault.delay, 3us);
    EXPECT_EQ(options.fault.seed, 7u);
    EXPECT_EQ(options.connection.congestion, CongestionControl::kCubic);
    EXPECT_EQ(options.host, "::1");
  }
}

TEST(OptionTable, RefusesByNameValueAndRange) {
  const std::pair<const char*, OptionValue> wrong[] = {{"port_range", PortRange(1, 65536)},
                                                       {"port_range", "-1"},
                                                       {"port_range", PortRange(0, 7)},
                                                       {"fault", "loss=1.01"},
                                                       {"fault", "loss=nan"},
                                                       {"fault", "loss="},
                                                       {"spin_us", -1.0},
                                                       {"udp_offload", "maybe"},
                                                       {"lane_bytes", uint64_t{0}},
                                                       {"dscp", uint64_t{64}},
                                                       {"lane_bytes", std::monostate()},
                                                       {"eager_bytes", "18446744073709551616"}};
  for (const auto& [name, value] : wrong) {
    const Status status = MakeRuntimeOptions(Values(name, value)).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << name << "=" << TextOf(value);
    const std::string start = name + ("='" + TextOf(value)) + "': accepted is ";
    EXPECT_TRUE(status.message().starts_with(start)) << status.message();
  }
  const Status unknown = MakeRuntimeOptions(Values("nonsense", true)).status();
  EXPECT_NE(unknown.message().find("lane_bytes"), std::string::npos) << unknown.message();
}

TEST(OptionTable, AcceptsItsOwnDefaultsWhichAreThoseOfTheFields) {
  std::set<std::string> names;
  for (const Option& option : OptionTable()) {
    EXPECT_TRUE(names.insert(option.name).second) << option.name;
    const auto value = option.read(option.default_value, option.name);
    ASSERT_TRUE(value.ok()) << value.status().message();
    EXPECT_EQ(value.value(), option.default_value) << option.name;
  }
  const auto standard = [](const char* name) { return FindOption(name)->default_value; };
  EXPECT_EQ(standard("lane_bytes"), OptionValue(uint64_t{EngineOptions().lane_bytes}));
  EXPECT_EQ(standard("ecn"), OptionValue(true));
  EXPECT_EQ(standard("ib_gid_index"), OptionValue());
  EXPECT_EQ(Made({}).rdma.gid_index, RdmaOptions().gid_index);
}

TEST(OptionTable, EachVariableOfAnotherLibrarySaysOneThing) {
  std::set<std::string> variables;
  for (const Option& option : OptionTable()) {
    for (const OptionAlias& alias : option.aliases) {
      EXPECT_TRUE(variables.insert(alias.variable).second) << alias.variable;
      EXPECT_FALSE(alias.variable.starts_with("ROCECOLL_"));
    }
  }
  EXPECT_TRUE(variables.contains("NCCL_SOCKET_IFNAME"));
  const OptionAlias& level = FindOption("ib_sl")->aliases.front();
  EXPECT_EQ(level.in_our_words(" 0x5 "), "5");
  EXPECT_EQ(level.in_our_words("-1"), "");
  EXPECT_EQ(level.in_our_words("high"), "high");
}

TEST(OptionTable, MissesADeadRankSoonerWhereNoNetworkTells) {
  const auto timeouts = [](const OptionValues& values) {
    const ConnectionOptions connection = Made(values).connection;
    return std::pair<Duration, Duration>(connection.peer_timeout, connection.heartbeat_interval);
  };
  using Timeouts = std::pair<Duration, Duration>;
  EXPECT_EQ(timeouts({{"transport", "udp"}}), Timeouts(10s, 500ms));
  for (const char* transport : {"ud", "rc"}) {
    EXPECT_EQ(timeouts({{"transport", transport}}), Timeouts(4s, 500ms));
  }
  // Under auto only of those whom RoCE may carry.
  EXPECT_EQ(timeouts({{"transport", "auto"}}), Timeouts(10s, 500ms));
  EXPECT_EQ(Made({{"transport", "auto"}}).roce_peer_timeout, 4s);
  EXPECT_EQ(Made({{"transport", "auto"}, {"peer_timeout", 1.0}}).roce_peer_timeout, std::nullopt);
  EXPECT_EQ(timeouts({{"transport", "rc"}, {"peer_timeout", 1.0}}), Timeouts(1s, 250ms));
  EXPECT_EQ(timeouts({{"peer_timeout", 300.0}}), Timeouts(300s, 15s)) << "no more than 20 in it";
  EXPECT_EQ(timeouts({{"peer_timeout", "auto"}}), timeouts({}));
  EXPECT_EQ(timeouts({{"heartbeat_interval", 0.1}}), Timeouts(10s, 100ms));
}

TEST(OptionTable, SharesMemoryUnlessItIsToUseTheNetwork) {
  const std::pair<OptionValues, bool> cases[] = {
      {{}, true},
      {{{"shm", std::monostate()}, {"transport", "rc"}, {"fault", ""}}, true},
      {{{"transport", "udp"}}, false},
      {{{"fault", "loss=0.05"}}, false},
      {{{"transport", "udp"}, {"shm", true}}, true},
      {{{"shm", false}}, false},
  };
  for (const auto& [values, shared] : cases) {
    EXPECT_EQ(Made(values).shm, shared);
    const OptionValues all = WithDefaults(values);
    EXPECT_EQ(TextOf(all.at("shm")), shared ? "1" : "0");
    EXPECT_EQ(all.size(), OptionTable().size());
  }
}

TEST(OptionTable, ParsesAlgorithmsByTheNamesOfTheCalls) {
  const auto table = ParseAlgorithms("all_reduce:ring, barrier : dissemination,");
  ASSERT_TRUE(table.has_value());
  EXPECT_EQ((*table)[static_cast<size_t>(Collective::kAllreduce)], "ring");
  EXPECT_EQ((*table)[static_cast<size_t>(Collective::kBarrier)], "dissemination");
  EXPECT_EQ(std::ranges::count(*table, ""), static_cast<int64_t>(table->size()) - 2);
  for (const char* wrong : {"allreduce:ring", "send:direct", "ring", "barrier:", "all_reduce:rings",
                            "barrier:dissemination,barrier:dissemination"}) {
    EXPECT_FALSE(ParseAlgorithms(wrong).has_value()) << wrong;
  }
}

TEST(OptionTable, SaysTheSameAlgorithmsInTheSameWords) {
  const Option& option = *FindOption("algorithm");
  const auto value = option.read(" barrier:dissemination , all_reduce : ring,", "algorithm");
  ASSERT_TRUE(value.ok()) << value.status().message();
  EXPECT_EQ(value.value(), OptionValue("all_reduce:ring,barrier:dissemination"));
}

TEST(OptionTable, NamesTheAlgorithmsThatExist) {
  const auto refused = FindOption("algorithm")->read("reduce:binomal,all_reduce:ring", "algorithm");
  const std::string message = refused.status().message();
  EXPECT_TRUE(
      message.ends_with("; reduce has no algorithm 'binomal', it has binomial, "
                        "reduce_scatter_gather and host_leaders"))
      << message;
}

}  // namespace
}  // namespace rocecoll
