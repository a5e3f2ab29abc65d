// SPDX-License-Identifier: Apache-2.0
#include "runtime/open_transport.h"

#include <gtest/gtest.h>

#include "base/log.h"
#include "runtime/runtimes.h"

namespace rocecoll {
namespace {

RuntimeOptions Options(const std::string& transport, const std::string& hca = "none") {
  RuntimeOptions options;
  options.transport = transport;
  options.plugin = FAKE_PLUGINS "fake_good.so";
  options.rdma.hca = hca;
  return options;
}

constexpr char kInstead[] =
    "\nOr set ROCECOLL_TRANSPORT=auto on all ranks: RoCE where there is some, else UDP";

void ForgetLog() {
  while (TakeLogEntry(Duration{0}).has_value()) {
  }
}

// A sum over all ranks.
void ExpectSums(Runtimes& runtimes) {
  std::vector<std::vector<int32_t>> data(runtimes.ranks(), std::vector<int32_t>(1000, 1));
  std::vector<OperationPtr> ops;
  for (Rank rank = 0; rank < runtimes.ranks(); ++rank) {
    ops.push_back(runtimes.all_reduce(data[rank]));
    ASSERT_TRUE(runtimes[rank].submit(runtimes.group(rank), ops[rank], true).ok());
  }
  for (Rank rank = 0; rank < runtimes.ranks(); ++rank) {
    const Status status = runtimes[rank].wait(ops[rank], std::chrono::seconds(200));
    ASSERT_TRUE(status.ok()) << status.message();
    ASSERT_EQ(data[rank][999], static_cast<int32_t>(runtimes.ranks()));
  }
}

TEST(OpenTransport, RefusesRoceByNameWithoutADevice) {
  for (const char* name : {"rc", "ud"}) {
    const Status status = OpenTransport(Options(name)).status();
    EXPECT_EQ(status.code(), StatusCode::kUnsupported);
    EXPECT_EQ(status.message(), std::string("rocecoll: transport ") + name +
                                    " cannot be used here: no device like \"none\" for 127.0.0.1" +
                                    kInstead);
  }
}

TEST(OpenTransport, AutoIsNoCureForOptionsThatNoDeviceTakes) {
  for (const char* name : {"rc", "ud"}) {
    const Status status = OpenTransport(Options(name, "impossible")).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(status.message().find(kInstead), std::string::npos) << status.message();
  }
}

TEST(OpenTransport, AutoGoesWithoutADeviceAndSaysSoOnceInEachProcess) {
  ForgetLog();
  auto opened = OpenTransport(Options("auto"));
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  const auto entry = TakeLogEntry(Duration{0});
  ASSERT_TRUE(entry.has_value());
  EXPECT_EQ(entry->severity, Severity::kInfo);
  EXPECT_EQ(entry->text,
            "no RoCE in this process, only UDP: no device like \"none\" for 127.0.0.1");
  const auto socket = TakeLogEntry(Duration{0});
  ASSERT_TRUE(socket.has_value());
  EXPECT_EQ(socket->severity, Severity::kInfo);
  EXPECT_TRUE(socket->text.starts_with("UDP port ")) << socket->text;
  EXPECT_FALSE(TakeLogEntry(Duration{0}).has_value());

  Runtimes runtimes(3, Options("auto"));
  ExpectSums(runtimes);
  ForgetLog();
}

TEST(OpenTransport, AutoWarnsOfADeviceThatRefusesToWork) {
  ForgetLog();
  ASSERT_TRUE(OpenTransport(Options("auto", "broken")).ok());
  const auto entry = TakeLogEntry(Duration{0});
  ASSERT_TRUE(entry.has_value());
  EXPECT_EQ(entry->severity, Severity::kWarning);
}

TEST(OpenTransport, AutoRefusesOptionsThatNoDeviceTakes) {
  const Status status = OpenTransport(Options("auto", "impossible")).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
}

TEST(OpenTransport, FaultsApplyBelowEveryTransport) {
  for (const char* name : {"udp", "auto"}) {
    RuntimeOptions options = Options(name);
    options.fault.loss = 0.2;
    Runtimes runtimes(2, options);
    for (int round = 0; round < 20; ++round) ExpectSums(runtimes);
    EXPECT_GT(runtimes[0].stats().packets_retransmitted + runtimes[1].stats().packets_retransmitted,
              0u);
  }
  ForgetLog();
}

TEST(OpenTransport, DevicesAreDescribedForThisHost) {
  RuntimeOptions options = Options("udp");
  options.host = "192.0.2.7";
  EXPECT_EQ(DescribeDevices(options), "fake0 port 1: not for 192.0.2.7");
  options.plugin = FAKE_PLUGINS "fake_absent.so";
  EXPECT_TRUE(DescribeDevices(options).starts_with("built without RoCE"));
}

}  // namespace
}  // namespace rocecoll
