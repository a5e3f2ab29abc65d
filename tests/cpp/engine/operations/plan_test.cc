// SPDX-License-Identifier: Apache-2.0
#include "engine/operations/plan.h"

#include <gtest/gtest.h>

#include <vector>

#include "collectives/host_layout.h"
#include "engine/operations/engine_options.h"

namespace rocecoll {
namespace {

constexpr size_t kEagerBytes = 1024;
constexpr EagerLimit kEager{.bytes = kEagerBytes, .pieces = 2};
constexpr EngineOptions kOptions{.lane_bytes = 16 * 1024};

HostLayout OneHost(uint32_t ranks) { return HostLayout(std::vector<uint32_t>(ranks)); }

// Of an all_reduce of bytes that recursive doubling moves as a whole.
uint32_t LanesOf(uint64_t bytes, const EagerLimit& eager = kEager) {
  static std::byte memory;
  OperationSpec spec;
  spec.collective = Collective::kAllreduce;
  spec.type = DataType::kUint8;
  spec.algorithm = "recursive_doubling";
  spec.input = {&memory, Partition::Even(bytes, 2)};
  spec.output = spec.input;
  auto plan = MakePlan(spec, 0, OneHost(2), eager, kOptions);
  EXPECT_TRUE(plan.ok());
  return plan.value().lanes;
}

TEST(Plan, AMessageJustOverTheEagerLimitBecomesTwoWithinIt) {
  EXPECT_EQ(LanesOf(0), 1u);
  EXPECT_EQ(LanesOf(1), 1u);
  EXPECT_EQ(LanesOf(kEagerBytes), 1u);
  EXPECT_EQ(LanesOf(kEagerBytes + 1), 2u);
  EXPECT_EQ(LanesOf(2 * kEagerBytes), 2u);
  EXPECT_EQ(LanesOf(2 * kEagerBytes + 2), 1u);
  EXPECT_EQ(LanesOf(kOptions.lane_bytes), 1u);
  EXPECT_EQ(LanesOf(kOptions.lane_bytes, {.bytes = 0, .pieces = 2}), 1u) << "nothing is eager";
  EXPECT_EQ(LanesOf(kEagerBytes + 1, {.bytes = kEagerBytes, .pieces = 1}), 1u) << "it asks";
}

TEST(Plan, OneMessageIsAtMostHalfALane) {
  EXPECT_EQ(LanesOf(kOptions.lane_bytes + 1), 3u);
  EXPECT_EQ(LanesOf(4 * kOptions.lane_bytes), 8u);
}

// Also where rank 0, whose steps they are cut by, has nothing to do with the other host.
TEST(Plan, LanesAreTheSameWhicheverRankLeadsItsHost) {
  static std::byte memory;
  const HostLayout two_by_two(std::vector<uint32_t>{0, 0, 1, 1});
  std::vector<uint32_t> lanes;
  for (Rank root = 0; root < 4; ++root) {
    OperationSpec spec;
    spec.collective = Collective::kBroadcast;
    spec.type = DataType::kUint8;
    spec.algorithm = "host_leaders";
    spec.root = root;
    spec.output = {&memory, Partition::Even(4 * kOptions.lane_bytes, 4)};
    auto plan = MakePlan(spec, root, two_by_two, kEager, kOptions);
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    lanes.push_back(plan.value().lanes);
  }
  EXPECT_EQ(lanes, std::vector<uint32_t>(4, 8));
}

TEST(Plan, WhatIsOnlyPreferredGivesWayWhereItCannotBe) {
  static std::byte memory;
  OperationSpec spec;
  spec.collective = Collective::kAllreduce;
  spec.type = DataType::kUint8;
  spec.algorithm = "halving_doubling";
  const auto plan = [&](uint32_t ranks) {
    spec.input = {&memory, Partition::Even(kEagerBytes, ranks)};
    spec.output = spec.input;
    return MakePlan(spec, 0, OneHost(ranks), kEager, kOptions);
  };
  EXPECT_EQ(plan(3).status().code(), StatusCode::kInvalidArgument);
  spec.only_preferred = true;
  auto three = plan(3);
  ASSERT_TRUE(three.ok()) << three.status().message();
  EXPECT_EQ(three.value().program.name, "recursive_doubling");
  EXPECT_EQ(plan(4).value().program.name, "halving_doubling");
}

TEST(Plan, OneRankAloneSendsNothing) {
  static std::byte memory;
  OperationSpec spec;
  spec.collective = Collective::kAllreduce;
  spec.type = DataType::kUint8;
  spec.input = {&memory, Partition::Even(2 * kEagerBytes, 1)};
  spec.output = spec.input;
  auto plan = MakePlan(spec, 0, OneHost(1), kEager, kOptions);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan.value().lanes, 1u);
}

TEST(Plan, WhatOnlyOneRankKnowsIsNotCut) {
  static std::byte memory;
  OperationSpec spec;
  spec.collective = Collective::kAlltoall;
  spec.type = DataType::kUint8;
  spec.uniform = false;
  spec.input = {&memory, Partition::Even(4 * kEagerBytes, 2)};
  spec.output = spec.input;
  auto plan = MakePlan(spec, 0, OneHost(2), kEager, kOptions);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan.value().lanes, 1u);
}

}  // namespace
}  // namespace rocecoll
