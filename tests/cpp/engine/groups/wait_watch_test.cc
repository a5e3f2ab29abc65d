// SPDX-License-Identifier: Apache-2.0
#include "engine/groups/wait_watch.h"

#include <gtest/gtest.h>

#include "engine/groups/group_spec.h"

namespace rocecoll {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

class WaitWatchTest : public testing::Test {
 protected:
  WaitWatchTest() {
    group_.name = "default";
    group_.addresses = {Address({}, "10.0.0.1:7000"), Address({}, "10.0.0.1:7001"),
                        Address({}, "10.0.0.1:7002")};
    watch_.begin(start_);
  }
  std::vector<LogEntry> look(Duration at, const LinkContact& contact) {
    return watch_.look(start_ + at, {{1, contact}}, "barrier #3");
  }
  static LinkContact HeardAt(Instant at, bool established = true) {
    return {at, true, established, Obstacle::kNone};
  }

  const Instant start_{seconds(100)};
  GroupSpec group_;
  WaitWatch watch_{group_};
};

TEST_F(WaitWatchTest, ASilentRankIsToldOfOnceWithinASecondAndWhenItIsBack) {
  EXPECT_TRUE(look(milliseconds(400), HeardAt(start_)).empty());
  EXPECT_EQ(watch_.next_look(), start_ + milliseconds(900));
  const auto told = look(milliseconds(900), HeardAt(start_));
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].severity, Severity::kWarning);
  EXPECT_EQ(told[0].text,
            "group \"default\": nothing heard from rank 1 (10.0.0.1:7001) for 0.9 s; barrier #3 "
            "waits for it");
  EXPECT_FALSE(watch_.first_missed(1).empty());
  EXPECT_TRUE(watch_.first_missed(2).empty());
  EXPECT_TRUE(look(milliseconds(1400), HeardAt(start_)).empty());
  const auto back = look(milliseconds(3300), HeardAt(start_ + milliseconds(3200)));
  ASSERT_EQ(back.size(), 1u);
  EXPECT_EQ(back[0].severity, Severity::kInfo);
  EXPECT_EQ(back[0].text, "group \"default\": rank 1 (10.0.0.1:7001) is heard again after 3.2 s");
  EXPECT_TRUE(watch_.first_missed(1).empty());
}

// A deadline that is nobody's wakes a thread for each operation.
TEST_F(WaitWatchTest, ThatHasNothingToWatchHasNoLookBeforeIt) {
  watch_.rest();
  EXPECT_EQ(watch_.next_look(), kNever);
  watch_.begin(start_ + seconds(1));
  EXPECT_EQ(watch_.next_look(), start_ + seconds(1) + WaitWatch::kFirstLook);
}

TEST_F(WaitWatchTest, ThatHasMissedARankLooksOnBetweenOperations) {
  ASSERT_EQ(look(milliseconds(900), HeardAt(start_)).size(), 1u);
  watch_.rest();
  EXPECT_NE(watch_.next_look(), kNever);
  EXPECT_EQ(look(milliseconds(1400), HeardAt(start_ + milliseconds(1300))).size(), 1u);
  watch_.rest();
  EXPECT_EQ(watch_.next_look(), kNever);
}

TEST_F(WaitWatchTest, ARankIsMissedOnceAHeartbeatIsLate) {
  LinkContact contact = HeardAt(start_);
  contact.heartbeat_interval = seconds(15);
  EXPECT_TRUE(look(milliseconds(15'300), contact).empty());
  EXPECT_EQ(watch_.next_look(), start_ + milliseconds(15'400));
  EXPECT_EQ(look(milliseconds(15'400), contact).size(), 1u);
}

TEST_F(WaitWatchTest, WhoIsHeardInTheStepThatTellsOfItIsNotHeardInTheFuture) {
  EXPECT_EQ(DescribeContacts(group_, start_, {{1, HeardAt(start_ + seconds(1))}}),
            "rank 1 (10.0.0.1:7001): heard 0 s ago");
}

TEST_F(WaitWatchTest, ARankThatHasNotOpenedTheLinkIsHeardMoreSeldom) {
  EXPECT_TRUE(look(milliseconds(2000), HeardAt(start_, false)).empty());
  EXPECT_EQ(look(milliseconds(2600), HeardAt(start_, false)).size(), 1u);
}

TEST_F(WaitWatchTest, MissingFirstContactIsToldAfterFiveSeconds) {
  const LinkContact never{start_, false, false, Obstacle::kNone};
  EXPECT_TRUE(look(milliseconds(4900), never).empty());
  const auto told = look(seconds(5), never);
  ASSERT_EQ(told.size(), 1u);
  EXPECT_TRUE(told[0].text.starts_with("group \"default\": ")) << told[0].text;
  for (const char* part :
       {"rank 1 (10.0.0.1:7001)", "its address is known", "10.0.0.1:7000 to 10.0.0.1:7001",
        "ROCECOLL_PORT_RANGE", "ROCECOLL_SOCKET_IFNAME", "MTU"}) {
    EXPECT_NE(told[0].text.find(part), std::string::npos) << part << " in " << told[0].text;
  }
  EXPECT_TRUE(look(seconds(6), never).empty());
}

TEST_F(WaitWatchTest, NoRouteIsToldAtOnce) {
  EXPECT_LE(watch_.next_look(), start_ + milliseconds(100));
  const auto told = look(milliseconds(100), {start_, false, false, Obstacle::kNetworkUnreachable});
  ASSERT_EQ(told.size(), 1u);
  EXPECT_NE(told[0].text.find("no route"), std::string::npos) << told[0].text;
}

TEST_F(WaitWatchTest, NoRouteToARankThatIsHeardIsToldOnce) {
  LinkContact contact = HeardAt(start_);
  contact.obstacle = Obstacle::kNetworkUnreachable;
  const auto told = look(milliseconds(100), contact);
  ASSERT_EQ(told.size(), 1u);
  EXPECT_NE(told[0].text.find("no route"), std::string::npos) << told[0].text;
  contact.heard_at += milliseconds(500);
  EXPECT_TRUE(look(milliseconds(600), contact).empty());
  EXPECT_EQ(look(milliseconds(1100), HeardAt(start_ + seconds(1))).size(), 1u);
}

TEST_F(WaitWatchTest, LongWaitsAreReportedMoreAndMoreSeldom) {
  std::vector<Duration> reports;
  for (Duration at{0}; at <= minutes(9); at += milliseconds(500)) {
    look(at, HeardAt(start_ + at));
    if (!watch_.report_due(start_ + at, 7, start_)) continue;
    reports.push_back(at);
    watch_.reported(start_ + at, start_);
  }
  EXPECT_EQ(reports, (std::vector<Duration>{seconds(10), seconds(30), minutes(1), minutes(2),
                                            minutes(4), minutes(8)}));
  EXPECT_FALSE(watch_.report_due(start_ + minutes(9), 8, start_ + minutes(9) - seconds(9)));
  EXPECT_TRUE(watch_.report_due(start_ + minutes(9), 8, start_ + minutes(9) - seconds(10)));
}

}  // namespace
}  // namespace rocecoll
