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
  const Status found(StatusCode::kPeerLost, text.link_cause(failure, ""));
  EXPECT_EQ(text.report(found.reported_by(0)),
            "rank 0 (10.0.0.1:7000) reported: peer lost: lost rank 1 (10.0.0.1:7001): gone; see "
            "rank 1's own log first: it may have raised an exception or been killed");
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
  EXPECT_EQ(text.link_cause(failure, ""),
            "no contact with rank 1 (10.0.0.1:7001): its address is known, but no UDP "
            "packet came back (127.0.0.1:7000 to 127.0.0.1:7001): silence; see rank 1's own log "
            "first: it may have raised an exception");
  failure.peer = 2;
  EXPECT_EQ(text.link_cause(failure, ""),
            "no contact with rank 2 (10.0.0.2:7000): its address is known, but no UDP "
            "packet came back (10.0.0.1:7000 to 10.0.0.2:7000): silence; see rank 2's own log "
            "first: it may have raised an exception");
}

// Whoever reads of a rank that is gone looks at its log first, then at what else it may be.
TEST(FailureText, OfARankThatIsGoneTheFirstAdviceIsItsOwnLog) {
  GroupSpec group = TwoHosts();
  group.name = "g";
  group.global_ranks = {4, 5, 6};
  const FailureText text(group);
  const auto message = [&](StatusCode code, const std::string& first_missed) {
    MessengerFailure failure;
    failure.peer = 2;
    failure.status = Status(code, "why");
    return text.message(code, text.link_cause(failure, first_missed));
  };
  EXPECT_EQ(message(StatusCode::kPeerLeft, ""),
            "rocecoll: group \"g\": rank 6 (10.0.0.2:7000) left the group; see rank 6's own log "
            "first: it may have raised an exception; if it only ended early, let all ranks wait "
            "for each other (a barrier) before they end");
  EXPECT_EQ(message(StatusCode::kPeerLost, "12:00:01"),
            "rocecoll: group \"g\": lost rank 6 (10.0.0.2:7000): why, first missed at 12:00:01; "
            "see rank 6's own log first: it may have raised an exception or been killed; if it "
            "still runs, the network to its host is cut");
  const std::string no_contact = message(StatusCode::kNoContact, "");
  EXPECT_LT(no_contact.find("; see rank 6's own log first"),
            no_contact.find("; if it still runs, the cause is a firewall"))
      << no_contact;
}

TEST(FailureText, WithoutOtherNamesRanksAreNamedAsTheyAreReached) {
  GroupSpec group = TwoHosts();
  group.known_as = {};
  EXPECT_EQ(FailureText(group).peer(1), "rank 1 (127.0.0.1:7001)");
}

}  // namespace
}  // namespace rocecoll
