// SPDX-License-Identifier: Apache-2.0
#include "engine/groups/failure_text.h"

#include <gtest/gtest.h>

#include "engine/groups/group_spec.h"

namespace rocecoll {
namespace {

Address At(const std::string& text) { return Address({}, text); }

// Ranks 0 and 1 on one host, rank 2 on another; as rank 0 sees them.
GroupSpec TwoHosts() {
  GroupSpec group;
  group.addresses = {At("127.0.0.1:7000"), At("127.0.0.1:7001"), At("10.0.0.2:7000")};
  group.known_as = {"10.0.0.1:7000", "10.0.0.1:7001", "10.0.0.2:7000"};
  return group;
}

TEST(FailureText, AReportNamesAllRanksAsEveryHostKnowsThem) {
  const GroupSpec group = TwoHosts();
  const FailureText text(group);
  MessengerFailure failure;
  failure.peer = 1;
  failure.status = Status(StatusCode::kPeerLost, "gone");
  EXPECT_EQ(text.report(Status(StatusCode::kPeerLost, text.link_cause(failure)).reported_by(0)),
            "rank 0 (10.0.0.1:7000) reported: peer lost: lost rank 1 (10.0.0.1:7001): gone");
  EXPECT_EQ(text.report(Status(StatusCode::kAborted, "red\x1b[31m\ntape\x7f").reported_by(1)),
            "rank 1 (10.0.0.1:7001) reported: aborted: red [31m tape ")
      << "no control characters";
}

TEST(FailureText, OfAFailedFirstContactTheAddressesAreThoseThatWereUsed) {
  const GroupSpec group = TwoHosts();
  const FailureText text(group);
  MessengerFailure failure;
  failure.status = Status(StatusCode::kNoContact, "silence");
  failure.peer = 1;
  EXPECT_EQ(text.link_cause(failure),
            "no contact with rank 1 (10.0.0.1:7001): it met this rank in the store, but no UDP "
            "packet came back "
            "(127.0.0.1:7000 to 127.0.0.1:7001): silence");
  failure.peer = 2;
  EXPECT_EQ(text.link_cause(failure),
            "no contact with rank 2 (10.0.0.2:7000): it met this rank in the store, but no UDP "
            "packet came back "
            "(10.0.0.1:7000 to 10.0.0.2:7000): silence");
}

TEST(FailureText, WithoutOtherNamesRanksAreNamedAsTheyAreReached) {
  GroupSpec group = TwoHosts();
  group.known_as = {};
  EXPECT_EQ(FailureText(group).peer(1), "rank 1 (127.0.0.1:7001)");
}

}  // namespace
}  // namespace rocecoll
