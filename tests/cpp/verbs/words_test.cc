// SPDX-License-Identifier: Apache-2.0
// What the verbs report is expressed in words: statuses, events, addresses.
#include <gtest/gtest.h>

#include <cerrno>
#include <set>
#include <string>

#include "transport/verbs/port_health.h"
#include "transport/verbs/queue_pair_address.h"
#include "transport/verbs/verbs_error.h"

namespace rocecoll {
namespace {

TEST(VerbsWords, EveryCompletionStatusHasItsOwn) {
  std::set<std::string> seen{"a status that this version does not know"};
  for (int status = IBV_WC_SUCCESS; status <= IBV_WC_TM_RNDV_INCOMPLETE; ++status) {
    EXPECT_TRUE(seen.insert(ToText(static_cast<ibv_wc_status>(status))).second) << status;
    EXPECT_EQ(ToCompletionStatus(static_cast<ibv_wc_status>(status)) == CompletionStatus::kSuccess,
              status == IBV_WC_SUCCESS);
  }
}

TEST(VerbsWords, EveryEventHasItsOwn) {
  std::set<std::string> seen{"an event that this version does not know"};
  for (int event = IBV_EVENT_CQ_ERR; event <= IBV_EVENT_WQ_FATAL; ++event) {
    EXPECT_TRUE(seen.insert(ToText(static_cast<ibv_event_type>(event))).second) << event;
  }
}

TEST(VerbsWords, ErrorsNameDeviceReasonAndCure) {
  const std::string memory = VerbsError("rxe0", "make a queue pair", ENOMEM).message();
  EXPECT_EQ(memory.find("rxe0: cannot make a queue pair: Cannot allocate memory"), 0u) << memory;
  EXPECT_NE(memory.find("ulimit -l unlimited"), std::string::npos) << memory;
  EXPECT_EQ(VerbsError("rxe0", "make a queue pair", -ENOMEM).message(), memory);
  const std::string access = VerbsError("rxe0", "open the device", EACCES).message();
  EXPECT_NE(access.find("/dev/infiniband/uverbs"), std::string::npos) << access;
  const std::string hidden = VerbsError("rxe0", "open the device", ENOENT).message();
  EXPECT_NE(hidden.find("/dev/infiniband/uverbs"), std::string::npos) << hidden;
  const std::string files = VerbsError("rxe0", "open the device", EMFILE).message();
  EXPECT_EQ(files.find("rxe0: cannot open the device: too many open files: "), 0u) << files;
  EXPECT_NE(files.find("raise `ulimit -n`"), std::string::npos) << files;
}

TEST(PortHealth, FollowsTheEvents) {
  PortHealth health("rxe0 port 1");
  EXPECT_TRUE(health.status().ok());
  health.on_event(IBV_EVENT_QP_LAST_WQE_REACHED);
  health.on_event(IBV_EVENT_QP_ACCESS_ERR);
  EXPECT_TRUE(health.status().ok());
  health.on_event(IBV_EVENT_PORT_ERR);
  EXPECT_EQ(health.status().code(), StatusCode::kNetwork);
  EXPECT_EQ(health.status().message(), "rxe0 port 1: the port is down");
  health.on_event(IBV_EVENT_PORT_ACTIVE);
  EXPECT_TRUE(health.status().ok());
  health.set_gid_present(false);
  EXPECT_FALSE(health.status().ok());
  health.set_gid_present(true);
  EXPECT_TRUE(health.status().ok());
}

TEST(PortHealth, NeverRecoversFromABrokenDevice) {
  for (ibv_event_type event :
       {IBV_EVENT_DEVICE_FATAL, IBV_EVENT_CQ_ERR, IBV_EVENT_SRQ_ERR, IBV_EVENT_WQ_FATAL}) {
    PortHealth health("rxe0 port 1");
    health.on_event(event);
    health.on_event(IBV_EVENT_PORT_ACTIVE);
    health.set_broken("something later");
    EXPECT_EQ(health.status().message(), std::string("rxe0 port 1: ") + ToText(event));
  }
}

TEST(QueuePairAddress, ComesBackAsItWas) {
  for (const char* gid : {"192.0.2.1", "2001:db8::1"}) {
    const QueuePairAddress address{QueuePairAddress::Kind::kConnected,
                                   2048,
                                   0xabcdef,
                                   0x123456,
                                   ParseGid(gid).value(),
                                   {0xabcd, 0x80000001}};
    const Address bytes = ToAddress(address);
    const auto parsed = ToQueuePairAddress(bytes, QueuePairAddress::Kind::kConnected);
    ASSERT_TRUE(parsed.ok());
    EXPECT_EQ(parsed.value().mtu_bytes, 2048u);
    EXPECT_EQ(parsed.value().number, 0xabcdefu);
    EXPECT_EQ(parsed.value().packet_number_or_key, 0x123456u);
    EXPECT_EQ(ToText(parsed.value().gid), gid);
    EXPECT_EQ(parsed.value().extensions, address.extensions);
    EXPECT_EQ(bytes.text(), std::string(gid) + " queue pair 11259375");
  }
}

TEST(QueuePairAddress, RefusesEveryOtherBytes) {
  const auto kind = QueuePairAddress::Kind::kConnected;
  const Address good = ToAddress({kind, 1024, 17, 5, ParseGid("192.0.2.1").value()});
  EXPECT_FALSE(ToQueuePairAddress(good, QueuePairAddress::Kind::kDatagrams).ok());
  for (size_t size = 0; size < good.bytes().size(); ++size) {
    EXPECT_FALSE(ToQueuePairAddress(Address(good.bytes().first(size), "short"), kind).ok());
  }
  std::vector<std::byte> bytes(good.bytes().begin(), good.bytes().end());
  bytes.push_back({});
  EXPECT_FALSE(ToQueuePairAddress(Address(bytes, "long"), kind).ok());
  // These are the kind, the version, an MTU of 0x0401, and the unused bits of number and packet
  // number.
  for (size_t position : {0, 1, 2, 7, 11}) {
    bytes.assign(good.bytes().begin(), good.bytes().end());
    bytes[position] ^= std::byte{1};
    EXPECT_FALSE(ToQueuePairAddress(Address(bytes, "other"), kind).ok()) << position;
  }
}

TEST(ConnectionExtensions, AreWhatTwoDevicesOfOneMakeBothHave) {
  const auto common = InCommon({7, 0b0110}, {7, 0b1100});
  EXPECT_EQ(common, (ConnectionExtensions{7, 0b0100}));
  EXPECT_FALSE(InCommon({7, 0b0110}, {7, 0b1001}).any());
  EXPECT_FALSE(InCommon({7, 0b0110}, {8, 0b0110}).any());
  EXPECT_FALSE(InCommon({}, {7, 0b0110}).any());
}

TEST(QueuePairAddress, KnowsTheCodesOfMtus) {
  EXPECT_EQ(ToVerbsMtu(256), IBV_MTU_256);
  EXPECT_EQ(ToVerbsMtu(1024), IBV_MTU_1024);
  EXPECT_EQ(ToVerbsMtu(4096), IBV_MTU_4096);
}

}  // namespace
}  // namespace rocecoll
