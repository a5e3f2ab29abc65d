// SPDX-License-Identifier: Apache-2.0
// What a group may be made of. A refusal leaves the groups that are there as they were.
#include "collectives/topology.h"
#include "engine/call.h"

namespace rocecoll {
namespace {

GroupSpec OfRanks(uint32_t ranks, const Address& address) {
  GroupSpec spec;
  spec.name = "large";
  spec.key = {9, ~9ull};
  spec.addresses = std::vector<Address>(ranks, address);
  return spec;
}

class GroupLimits : public testing::Test {
 protected:
  Result<GroupId> add(GroupSpec spec) { return cluster_.engine(0).add_group(std::move(spec)); }
  void expect_refused(GroupSpec spec, const std::string& what) {
    const auto added = add(std::move(spec));
    EXPECT_EQ(added.status().code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(added.status().message(), "rocecoll: group \"large\": " + what);
    RunCall(cluster_, {.elements = 10});
  }

  Cluster cluster_{ClusterOptions{}};
  const Address address_ = cluster_.fabric().transport(0).address();
};

TEST_F(GroupLimits, NoRanks) {
  expect_refused(OfRanks(0, address_), "0 ranks, where a group has 1 to 65536");
}

TEST_F(GroupLimits, AsManyRanksAsCanBe) {
  const auto added = add(OfRanks(kMaxRanks, address_));
  ASSERT_TRUE(added.ok()) << added.status().message();
  cluster_.engine(0).remove_group(added.value());
}

TEST_F(GroupLimits, OneRankTooMany) {
  expect_refused(OfRanks(kMaxRanks + 1, address_), "65537 ranks, where a group has 1 to 65536");
}

TEST_F(GroupLimits, OneRankTooManyOnNamedHosts) {
  GroupSpec spec = OfRanks(kMaxRanks + 1, address_);
  spec.hosts.resize(kMaxRanks + 1);
  expect_refused(std::move(spec), "65537 ranks, where a group has 1 to 65536");
}

TEST_F(GroupLimits, HostsForOtherRanks) {
  GroupSpec spec = OfRanks(3, address_);
  spec.hosts = {0, 1};
  expect_refused(std::move(spec), "2 hosts named for 3 ranks");
}

std::string LateCall(Engine& engine, GroupId group) {
  OperationSpec barrier;
  barrier.collective = Collective::kBarrier;
  return engine.submit(Instant{}, group, std::make_shared<Operation>(std::move(barrier), nullptr))
      .message();
}

TEST_F(GroupLimits, LateCallsAreToldTheNameOfTheGroup) {
  Engine& engine = cluster_.engine(0);
  const GroupId plain = add(OfRanks(1, address_)).value();
  engine.remove_group(plain);
  const GroupId described = add(OfRanks(1, address_)).value();
  engine.remove_group(described, "pipeline stages");
  EXPECT_EQ(LateCall(engine, plain), "rocecoll: group \"large\" has been destroyed on this rank");
  EXPECT_EQ(LateCall(engine, described),
            "rocecoll: group \"large\" (pipeline stages) has been destroyed on this rank");
  const GroupId left = add(OfRanks(1, address_)).value();
  engine.shut_down();
  EXPECT_EQ(LateCall(engine, left),
            "rocecoll: group \"large\" has ended, as the runtime has been shut down: the program "
            "ends");
}

TEST_F(GroupLimits, NamesOfEndedGroupsAreForgottenAtLast) {
  Engine& engine = cluster_.engine(0);
  const GroupId first = add(OfRanks(1, address_)).value();
  engine.remove_group(first);
  GroupId last = first;
  for (int i = 0; i < 1024; ++i) {
    last = add(OfRanks(1, address_)).value();
    engine.remove_group(last);
  }
  EXPECT_EQ(LateCall(engine, first), "rocecoll: the group has been destroyed on this rank");
  EXPECT_EQ(LateCall(engine, last), "rocecoll: group \"large\" has been destroyed on this rank");
}

}  // namespace
}  // namespace rocecoll
