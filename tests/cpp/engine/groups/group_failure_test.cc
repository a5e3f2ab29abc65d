// SPDX-License-Identifier: Apache-2.0
// What failed first, who is told of it, and the words.
#include "engine/groups/group_failure.h"

#include <gtest/gtest.h>

#include <array>
#include <variant>

#include "engine/groups/notice.h"
#include "transport/sim/sim_fabric.h"
#include "transport/sim/sim_transport.h"

namespace rocecoll {
namespace {

class GroupFailureTest : public testing::Test {
 protected:
  GroupFailureTest() {
    group_.name = "default";
    group_.key = {3, 4};
    group_.addresses = {fabric_.transport(0).address(), fabric_.transport(1).address(),
                        fabric_.transport(2).address()};
  }
  // Steps as long as it wants to be stepped; returns how often it told.
  int run() {
    int told = 0;
    for (Instant now{}; told < 100 && failure_.next_deadline() != kNever;) {
      told += failure_.step(now) ? 1 : 0;
      now = failure_.next_deadline();
    }
    return told;
  }
  // What has come to a rank since the last call.
  std::vector<Notice> notices_at(Rank rank) {
    while (fabric_.advance()) {
    }
    std::array<Event, 16> events;
    const size_t count = fabric_.transport(rank).poll(fabric_.now(), events);
    std::vector<Notice> notices;
    for (size_t i = 0; i < count; ++i) notices.push_back(ParseNotice(events[i].frame).value());
    return notices;
  }
  std::string told(const Notice& notice) {
    const Status& report = std::get<AbortNotice>(notice).report;
    return std::to_string(report.reporter().value()) + ": " + report.message();
  }

  SimFabric fabric_{{.endpoints = 3}};
  GroupSpec group_;
  GroupFailure failure_{fabric_.transport(0), group_};
};

TEST_F(GroupFailureTest, OnlyTheFirstOneCounts) {
  EXPECT_TRUE(failure_.status().ok());
  EXPECT_EQ(failure_.next_deadline(), kNever);
  const Status told = failure_.fail(Status(StatusCode::kNetwork, "no route"), "barrier #3");
  EXPECT_EQ(told.reporter(), Rank{0});
  EXPECT_EQ(told.message(), "barrier #3: no route");
  const std::string first = failure_.status().message();
  EXPECT_EQ(first,
            "rocecoll: group \"default\": barrier #3: no route; see the network settings of this "
            "host");
  EXPECT_TRUE(failure_.fail(Status(StatusCode::kInternal, "later"), "").ok());
  EXPECT_TRUE(failure_.abort(Status(StatusCode::kAborted, "later")).ok());
  failure_.leave("barrier #3");
  EXPECT_EQ(failure_.status().message(), first);
  EXPECT_EQ(failure_.status().code(), StatusCode::kNetwork);
}

TEST_F(GroupFailureTest, EveryOtherRankIsToldSeveralTimes) {
  ASSERT_FALSE(failure_.fail(Status(StatusCode::kNetwork, "no route"), "").ok());
  const int times = run();
  EXPECT_GT(times, 1);
  for (const Rank rank : {1, 2}) {
    const auto notices = notices_at(rank);
    ASSERT_EQ(notices.size(), static_cast<size_t>(times));
    for (const Notice& notice : notices) EXPECT_EQ(told(notice), "0: no route");
  }
  EXPECT_TRUE(notices_at(0).empty());
  failure_.tell(2);
  EXPECT_TRUE(notices_at(1).empty());
  EXPECT_EQ(notices_at(2).size(), 1u);
}

TEST_F(GroupFailureTest, AnotherRanksReportGoesOnAsItCame) {
  const Status report = Status(StatusCode::kTimeout, "send #1: timed out").reported_by(2);
  EXPECT_EQ(failure_.fail(report, "barrier #3").message(), report.message());
  EXPECT_NE(failure_.status().message().find("barrier #3: rank 2 (sim:2) reported: timeout: send "
                                             "#1: timed out"),
            std::string::npos)
      << failure_.status().message();
  ASSERT_TRUE(failure_.step(Instant{}));
  EXPECT_EQ(told(notices_at(1).at(0)), "2: send #1: timed out");
  failure_.spare_notices();
  EXPECT_EQ(run(), 0);
}

TEST_F(GroupFailureTest, AnAbortIsToldInItsCallersWords) {
  ASSERT_FALSE(failure_.abort(Status(StatusCode::kAborted, "")).ok());
  EXPECT_EQ(failure_.status().message(), "aborted");
  failure_.add("the link would not close");
  EXPECT_EQ(failure_.status().message(), "aborted; and then the link would not close");
  failure_.leave("");
  const auto notices = notices_at(1);
  EXPECT_GT(notices.size(), 1u) << "none is left out at the end";
  EXPECT_EQ(told(notices.front()), "0: aborted");
  EXPECT_EQ(told(ParseNotice(failure_.parting_word().notice).value()), "0: aborted");
}

TEST_F(GroupFailureTest, AGroupThatEndsInGoodOrderTellsNobody) {
  failure_.leave("barrier #3");
  EXPECT_EQ(failure_.status().code(), StatusCode::kAborted);
  EXPECT_EQ(failure_.status().message(),
            "rocecoll: group \"default\": barrier #3: this rank ended the group before the "
            "operation was done; wait for every operation first");
  EXPECT_EQ(run(), 0);
  failure_.tell(1);
  EXPECT_TRUE(notices_at(1).empty());
  const PartingWord word = failure_.parting_word();
  EXPECT_EQ(word.addresses.size(), 3u);
  EXPECT_EQ(std::get<LeftNotice>(ParseNotice(word.notice).value()).from, Rank{0});
}

}  // namespace
}  // namespace rocecoll
