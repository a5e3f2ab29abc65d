// SPDX-License-Identifier: Apache-2.0
#include "runtime/open_transport.h"

#include <gtest/gtest.h>

#include "base/log.h"
#include "runtime/runtimes.h"

namespace rocecoll {
namespace {

using Next = Progress::Next;

RuntimeOptions Options(const std::string& transport, const std::string& hca = "none") {
  RuntimeOptions options;
  options.transport = transport;
  options.plugin = FAKE_PLUGINS "fake_good.so";
  options.rdma.hca = hca;
  return options;
}

constexpr char kInstead[] =
    "\nOr set ROCECOLL_TRANSPORT=auto, the default, on all ranks: RoCE where there is some, else "
    "UDP";

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
    ASSERT_TRUE(runtimes[rank].submit(runtimes.group(rank), ops[rank], Next::kGoesOn).ok());
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
    EXPECT_EQ(status.message(), std::string("transport ") + name +
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

// What is said of it, besides the line about the UDP port, which comes last.
LogEntry TheOnlyEntry() {
  const auto entry = TakeLogEntry(Duration{0});
  const auto socket = TakeLogEntry(Duration{0});
  EXPECT_TRUE(entry && socket && socket->text.starts_with("UDP port "));
  EXPECT_FALSE(TakeLogEntry(Duration{0}).has_value());
  return entry.value_or(LogEntry{});
}

TEST(OpenTransport, WarnsOfADeviceThatRefusesToWorkWhereRoceWasAskedFor) {
  for (const bool wanted : {false, true}) {
    ForgetLog();
    RuntimeOptions options = Options("auto", "broken");
    options.roce_wanted = wanted;
    RoceUse roce;
    ASSERT_TRUE(OpenTransport(options, &roce).ok());
    const LogEntry entry = TheOnlyEntry();
    EXPECT_EQ(entry.severity, wanted ? Severity::kWarning : Severity::kInfo);
    // A list, in one line.
    EXPECT_EQ(roce.problem, "no device like \"broken\" for 127.0.0.1: fake0 is broken; fake1, too");
    EXPECT_EQ(entry.text, "no RoCE in this process, only UDP: " + roce.problem);
  }
}

TEST(OpenTransport, AutoGoesWithoutAPlugInThatDoesNotLoad) {
  for (const char* plugin : {"absent", "unmet", "other", "old"}) {
    for (const bool wanted : {false, true}) {
      ForgetLog();
      RuntimeOptions options = Options("auto");
      options.plugin = FAKE_PLUGINS + ("fake_" + std::string(plugin)) + ".so";
      options.roce_wanted = wanted;
      ASSERT_TRUE(OpenTransport(options).ok()) << plugin;
      const LogEntry entry = TheOnlyEntry();
      EXPECT_EQ(entry.severity, Severity::kInfo);
      EXPECT_TRUE(entry.text.starts_with("no RoCE in this process, only UDP: ")) << entry.text;
      EXPECT_EQ(entry.text.find('\n'), std::string::npos) << entry.text;
    }
  }
}

TEST(OpenTransport, RefusesOptionsThatNoDeviceTakesWhereRoceWasAskedFor) {
  ForgetLog();
  RuntimeOptions options = Options("auto", "impossible");
  EXPECT_TRUE(OpenTransport(options).ok());
  EXPECT_EQ(TheOnlyEntry().severity, Severity::kInfo);
  options.roce_wanted = true;
  EXPECT_EQ(OpenTransport(options).status().code(), StatusCode::kInvalidArgument);
}

TEST(OpenTransport, AutoGoesWithoutADeviceWhoseMemoryCannotBeLocked) {
  for (const uint64_t mib : {3, 4}) {
    ForgetLog();
    RoceUse roce;
    ASSERT_TRUE(OpenTransport(Options("auto", std::to_string(mib) + "MiB"), &roce).ok());
    EXPECT_EQ(roce.port, mib < 4 ? "" : "fake0 port 1");
    const std::string why =
        "fake0 port 1: this process may lock 3072 KiB of memory, RoCE takes 4 MiB and the tensors "
        "in flight; `ulimit -l unlimited`, for a container `--ulimit memlock=-1`";
    EXPECT_EQ(roce.problem, mib < 4 ? why : "");
    EXPECT_EQ(TheOnlyEntry().text,
              mib < 4 ? "no RoCE in this process, only UDP: " + why : "RoCE port: fake0 port 1");
  }
}

TEST(OpenTransport, AutoOpensNoDeviceThatNoPairWouldUse) {
  for (const bool shm : {false, true}) {
    for (const bool wanted : {false, true}) {
      for (const bool one_host : {false, true}) {
        ForgetLog();
        RuntimeOptions options = Options("auto", "4MiB");
        options.shm = shm;
        options.roce_wanted = wanted;
        options.one_host = one_host;
        RoceUse roce;
        ASSERT_TRUE(OpenTransport(options, &roce).ok());
        EXPECT_EQ(roce.port, shm && one_host && !wanted ? "" : "fake0 port 1");
      }
    }
  }
  ForgetLog();
}

TEST(OpenTransport, AutoIsTheDefault) {
  EXPECT_EQ(RuntimeOptions().transport, "auto");
  EXPECT_FALSE(RuntimeOptions().roce_wanted);
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
