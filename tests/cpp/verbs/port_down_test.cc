// SPDX-License-Identifier: Apache-2.0
// What happens when a port goes down. These tests run only where scripts/softroce made the network
// interfaces, which it names with their addresses in the environment.
#include <gtest/gtest.h>

#include <cstdlib>
#include <sstream>

#include "verbs/ud_world.h"

namespace rocecoll {
namespace {

// The two words of a variable; both are empty if it is not set.
std::array<std::string, 2> Pair(const char* variable) {
  std::array<std::string, 2> words;
  const char* text = std::getenv(variable);
  std::istringstream(text == nullptr ? "" : text) >> words[0] >> words[1];
  return words;
}

class PortDownTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto devices = Pair("SOFTROCE_DEVICES");
    interface_ = Pair("SOFTROCE_INTERFACES")[0];
    if (devices[1].empty() || interface_.empty()) {
      GTEST_SKIP() << "takes an interface down: for both ends of scripts/softroce's wire only";
    }
    a_name_ = devices[0];
    b_name_ = devices[1];
  }
  void TearDown() override {
    if (down_) up();
  }

  void run(const std::string& command) {
    ASSERT_EQ(std::system(command.c_str()), 0) << command;  // NOLINT: a test's own words
  }
  void take_down() {
    down_ = true;
    run("ip link set " + interface_ + " down");
  }
  // When an interface goes down, the system drops its routes and its IPv6 addresses.
  void up() {
    down_ = false;
    const auto own = Pair("SOFTROCE_ADDRESSES");
    const auto own6 = Pair("SOFTROCE_ADDRESSES6");
    const std::string device = " dev " + interface_;
    run("ip link set " + interface_ + " up");
    run("ip route replace " + own[1] + device + " src " + own[0]);
    run("ip -6 address replace " + own6[0] + "/128" + device + " nodad noprefixroute");
    run("ip -6 route replace " + own6[1] + device + " src " + own6[0]);
  }
  // Sleeps on the wait handle until health() has the wanted result.
  template <typename Port>
  static Status await_health(Port& port, bool wanted) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    Status health = port.health();
    while (health.ok() != wanted && std::chrono::steady_clock::now() < deadline) {
      if (port.arm()) WaitReadable(port.wait_handle(), 100);
      health = port.health();
    }
    EXPECT_EQ(health.ok(), wanted) << health.message();
    return health;
  }

  std::string a_name_;
  std::string b_name_;
  std::string interface_;
  bool down_ = false;
};

TEST_F(PortDownTest, ConnectedQueuePairsFailAndTheDeviceSaysWhy) {
  RdmaEnd a(a_name_, {.timeout = 13, .retry_count = 2});
  RdmaEnd b(b_name_, {.timeout = 13, .retry_count = 2});
  for (RdmaEnd* end : {&a, &b}) end->queue_pair = end->make();
  ASSERT_TRUE(a.connect(b).ok());
  ASSERT_TRUE(b.connect(a).ok());
  take_down();
  const Status status = await_health(*a.device, false);
  EXPECT_EQ(status.code(), StatusCode::kNetwork);
  EXPECT_EQ(status.message(), a_name_ + " port 1: the port is down");
  for (RdmaEnd* end : {&a, &b}) {
    const SendRequest write = end->write(end == &a ? b : a, 0, 100, 1);
    ASSERT_EQ(end->queue_pair->post({&write, 1}), 1u);
    ASSERT_TRUE(end->await(1));
    EXPECT_NE(end->completions[0].status, CompletionStatus::kSuccess);
  }
  up();
  EXPECT_TRUE(await_health(*a.device, true).ok());
  for (RdmaEnd* end : {&a, &b}) end->queue_pair = end->make();
  ASSERT_TRUE(a.connect(b).ok());
  ASSERT_TRUE(b.connect(a).ok());
  const SendRequest write = a.write(b, 0, 100, 1);
  ASSERT_EQ(a.queue_pair->post({&write, 1}), 1u);
  ASSERT_TRUE(a.await(2));
  EXPECT_EQ(a.completions[1].status, CompletionStatus::kSuccess) << a.completions[1].text;
}

// An address that comes back may get another place in the port's GID table.
TEST_F(PortDownTest, AnAddressThatComesBackIsFoundWhereverItIs) {
  RdmaEnd a(a_name_, {.host = GlobalAddress(a_name_, true)});
  RdmaEnd b(b_name_, {.host = GlobalAddress(b_name_, true)});
  UdEnd ud_a(a_name_, {.host = GlobalAddress(a_name_, true)});
  UdEnd ud_b(b_name_, {.host = GlobalAddress(b_name_, true)});
  const PeerHandle to_b = ud_a.add(ud_b.port->address());
  ud_b.add(ud_a.port->address());
  a.queue_pair = a.make();  // this one holds the old place
  b.queue_pair = b.make();
  ASSERT_TRUE(a.connect(b).ok());
  const auto own = Pair("SOFTROCE_ADDRESSES");
  const std::string device = " dev " + interface_;
  run("ip address del " + own[0] + "/32" + device);
  run("ip address add 192.0.2.77/32" + device);
  EXPECT_NE(await_health(*a.device, false).message().find("has lost the address"),
            std::string::npos);
  EXPECT_FALSE(await_health(*ud_a.port, false).ok());
  run("ip address add " + own[0] + "/32" + device);
  run("ip address del 192.0.2.77/32" + device);
  run("ip route replace " + own[1] + device + " src " + own[0]);
  EXPECT_TRUE(await_health(*a.device, true).ok());
  EXPECT_TRUE(await_health(*ud_a.port, true).ok());
  for (RdmaEnd* end : {&a, &b}) end->queue_pair = end->make();
  ASSERT_TRUE(a.connect(b).ok());
  ASSERT_TRUE(b.connect(a).ok());
  const SendRequest write = a.write(b, 0, 100, 1);
  ASSERT_EQ(a.queue_pair->post({&write, 1}), 1u);
  ASSERT_TRUE(a.await(1));
  EXPECT_EQ(a.completions[0].status, CompletionStatus::kSuccess) << a.completions[0].text;
  ud_a.await_way(to_b);
  ud_a.send(to_b, {Pattern(100, 1)});
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (ud_b.take() == 0 && std::chrono::steady_clock::now() < deadline) {
    ud_a.send(to_b, {Pattern(100, 1)});
    if (ud_b.port->arm()) WaitReadable(ud_b.port->wait_handle(), 100);
  }
  EXPECT_LT(std::chrono::steady_clock::now(), deadline);
}

TEST_F(PortDownTest, DatagramsAreLostAndFlowAgainAfterwards) {
  UdEnd a(a_name_, {.host = GlobalAddress(a_name_, true)});
  UdEnd b(b_name_, {.host = GlobalAddress(b_name_, true)});
  const PeerHandle to_b = a.add(b.port->address());
  const PeerHandle to_a = b.add(a.port->address());
  take_down();
  EXPECT_EQ(await_health(*a.port, false).message(), a_name_ + " port 1: the port is down");
  for (int i = 0; i < 100; ++i) {
    a.send(to_b, {Pattern(100, 1)});
    b.send(to_a, {Pattern(100, 1)});
    EXPECT_EQ(a.take() + b.take(), 0u);
  }
  up();
  EXPECT_TRUE(await_health(*a.port, true).ok());
  EXPECT_TRUE(await_health(*b.port, true).ok());
  // No event announces that the way is free again, so this sends until something arrives, as a
  // retransmission would. What was sent before may have waited on the way.
  const auto exchange = [](UdEnd& from, PeerHandle to, UdEnd& at) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    bool arrived = false;
    while (!arrived && std::chrono::steady_clock::now() < deadline) {
      from.send(to, {Pattern(100, 2)});
      if (at.take() == 0 && at.port->arm()) WaitReadable(at.port->wait_handle(), 20);
      arrived = !at.packets.empty() && at.packets.back().bytes == Pattern(100, 2);
    }
    ASSERT_TRUE(arrived);
    EXPECT_EQ(at.packets.back().from, from.port->address());
  };
  exchange(a, to_b, b);
  exchange(b, to_a, a);
}

}  // namespace
}  // namespace rocecoll
