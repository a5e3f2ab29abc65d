// SPDX-License-Identifier: Apache-2.0
// Links over real UD queue pairs, beside UDP on the loopback: whatever happens on the RoCE wire,
// UDP is not affected.
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "conformance/exchange.h"
#include "transport/datagram/datagram_transport.h"
#include "transport/datagram/fault_port.h"
#include "transport/datagram/ud/failover_port.h"
#include "transport/datagram/udp/udp_port.h"
#include "verbs/ud_world.h"

namespace rocecoll {
namespace {

using std::chrono::seconds;

// A process on each of the first two devices.
class UdFailoverWorld final : public RealTimeWorld {
 public:
  explicit UdFailoverWorld(const FaultOptions& faults = {}) {
    const auto clock = [this] { return now(); };
    const std::vector<std::string> devices = UsableDevices();
    for (size_t i = 0; i < ports.size(); ++i) {
      RdmaOptions options;
      options.hca = "=" + devices.at(i);
      options.host = GlobalAddress(devices[i], true);
      auto ud = UdPort::Open(options);
      EXPECT_TRUE(ud.ok()) << ud.status().message();
      std::unique_ptr<DatagramPort> second = ud.take();
      if (faults.any()) second = std::make_unique<FaultPort>(std::move(second), faults, clock);
      auto port = FailoverPort::Make(UdpPort::Open({}).take(), std::move(second), {}, clock);
      ports[i] = port.get();
      add(std::make_unique<DatagramTransport>(std::move(port), ConnectionOptions()));
    }
  }
  bool uses_ud(uint32_t from) {
    return ports[from]->uses_ud(ports[from]->add_peer(addresses[1 - from]).value());
  }
  bool both_use_ud(bool ud) { return uses_ud(0) == ud && uses_ud(1) == ud; }
  void prove() {
    links = connect(0, 1);
    ASSERT_TRUE(run([&] { return both_use_ud(true); }));
  }
  // Writes in both directions at once, compares every bit, and calls `meanwhile` once some writes
  // have landed.
  void transfer(size_t bytes, const std::function<void()>& meanwhile = {}) {
    constexpr uint32_t kParts = 16;
    struct Direction {
      Link* out = nullptr;
      Link* in = nullptr;
      std::vector<RandomWrite> parts = {};
      size_t written = 0;
      size_t landed = 0;
    };
    std::array<Direction, 2> directions{
        {{.out = links.first, .in = links.second}, {.out = links.second, .in = links.first}}};
    for (Direction& d : directions) {
      d.written = record(d.out).written.size();
      d.landed = record(d.in).landed.size();
      d.parts.reserve(kParts);
      for (uint32_t i = 0; i < kParts; ++i) {
        ASSERT_TRUE(d.parts.emplace_back(bytes, ++seed_).start(d.out, d.in, i));
      }
    }
    bool told = !meanwhile;
    const auto done = [&] {
      bool all = true;
      for (const Direction& d : directions) {
        const size_t landed = record(d.in).landed.size() - d.landed;
        all = all && landed == kParts && record(d.out).written.size() - d.written == kParts;
        if (told || landed == 0) continue;
        told = true;
        meanwhile();
      }
      return all;
    };
    ASSERT_TRUE(run(done, seconds(90)));
    EXPECT_TRUE(told);
    for (const Direction& d : directions) {
      for (const RandomWrite& part : d.parts) EXPECT_EQ(part.target, part.source);
    }
  }

  std::array<FailoverPort*, 2> ports{};
  std::pair<Link*, Link*> links;

 private:
  uint64_t seed_ = 0;
};

class UdFailover : public testing::Test {
 protected:
  void SetUp() override {
    const std::string reason = NoDevices(2);
    if (!reason.empty()) GTEST_SKIP() << reason;
  }
};

TEST_F(UdFailover, UdCarriesTheTransfers) {
  UdFailoverWorld world;
  world.prove();
  const uint64_t over_udp = world.ports[0]->counts().datagrams_over_udp;
  for (const size_t bytes : {size_t{1}, size_t{4096}, size_t{65536}, size_t{1} << 20}) {
    world.transfer(bytes);
  }
  EXPECT_EQ(world.ports[0]->counts().datagrams_over_udp, over_udp);
  EXPECT_GT(world.ports[0]->counts().datagrams_over_ud, (size_t{16} << 20) / 4096);
}

TEST_F(UdFailover, InjectedFaultsLoseNothing) {
  UdFailoverWorld world({.loss = 0.05, .duplicate = 0.02, .reorder = 0.05, .corrupt = 0.01});
  world.prove();
  world.transfer(200'000);
  EXPECT_TRUE(world.both_use_ud(true));
  EXPECT_GT(world.nodes[0].transport->stats().packets_retransmitted, 0u);
}

// The bed's wire, which tests break. docs/softroce.md describes its variables.
class UdWire : public UdFailover {
 protected:
  void SetUp() override {
    UdFailover::SetUp();
    if (IsSkipped()) return;
    if (std::getenv("SOFTROCE_INTERFACES") == nullptr) {
      GTEST_SKIP() << "breaks network interfaces: only in a bed of scripts/softroce";
    }
    if (std::string(std::getenv("SOFTROCE_GUESTS")) != "1") GTEST_SKIP() << "needs one guest";
  }
  // $own and $peer hold the interface, the IPv4 address and the IPv6 address of the first and of
  // the second end.
  static void shell(const std::string& command) {
    const std::string variables =
        "interface=${SOFTROCE_INTERFACES%% *} own=${SOFTROCE_ADDRESSES%% *} "
        "peer=${SOFTROCE_ADDRESSES##* } own6=${SOFTROCE_ADDRESSES6%% *} "
        "peer6=${SOFTROCE_ADDRESSES6##* }; ";
    ASSERT_EQ(std::system((variables + command).c_str()), 0) << command;
  }
};

TEST_F(UdWire, ASilentWireIsLeftAndTakenAgainOnceItCarriesSlow) {
  UdFailoverWorld world;
  world.prove();
  world.transfer(1 << 20, [] { shell("tc qdisc replace dev $interface root netem loss 100%"); });
  EXPECT_TRUE(world.run([&] { return world.both_use_ud(false); }));
  shell("tc qdisc replace dev $interface root netem ${SOFTROCE_NETEM:-loss 0%}");
  const auto back = [&] {
    world.transfer(1000);  // only a pair with traffic is tried again
    return world.both_use_ud(true);
  };
  EXPECT_TRUE(world.run(back, seconds(60)));
  world.transfer(1 << 20);
}

TEST_F(UdWire, APortThatGoesDownIsLeftAtOnceAndTakenAgainOnceItIsUpSlow) {
  UdFailoverWorld world;
  world.prove();
  world.transfer(1 << 20, [] { shell("ip link set $interface down"); });
  EXPECT_TRUE(world.run([&] { return world.both_use_ud(false); }));
  EXPECT_FALSE(world.uses_ud(0));
  shell(
      "ip link set $interface up && ip route replace $peer dev $interface src $own && "
      "ip -6 address replace $own6/128 dev $interface nodad noprefixroute && "
      "ip -6 route replace $peer6 dev $interface src $own6");
  const auto back = [&] {
    world.transfer(1000);
    return world.both_use_ud(true);
  };
  EXPECT_TRUE(world.run(back, seconds(60)));
  world.transfer(1 << 20);
}

}  // namespace
}  // namespace rocecoll
