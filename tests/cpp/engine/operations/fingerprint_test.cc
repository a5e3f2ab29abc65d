// SPDX-License-Identifier: Apache-2.0
#include "engine/operations/fingerprint.h"

#include <gtest/gtest.h>

#include <vector>

#include "collectives/host_layout.h"
#include "engine/operations/engine_options.h"

namespace rocecoll {
namespace {

OperationSpec AllReduceSpec(uint64_t elements) {
  static std::byte memory;
  OperationSpec spec;
  spec.collective = Collective::kAllreduce;
  spec.type = DataType::kFloat32;
  spec.input = {&memory, Partition::Even(elements, 4)};
  spec.output = spec.input;
  return spec;
}

Fingerprint FingerprintOf(const OperationSpec& spec, EngineOptions options = {}) {
  auto plan =
      MakePlan(spec, spec.root, HostLayout(std::vector<uint32_t>(4)), {.bytes = 1024}, options);
  EXPECT_TRUE(plan.ok());
  return MakeFingerprint(spec, plan.value(), 17);
}

TEST(Fingerprint, SaysWhatWasCalled) {
  EXPECT_EQ(DescribeFingerprint(FingerprintOf(AllReduceSpec(1024))),
            "all_reduce(SUM, float32, 1024 elements)");
  OperationSpec broadcast = AllReduceSpec(1);
  broadcast.collective = Collective::kBroadcast;
  broadcast.root = 2;
  EXPECT_EQ(DescribeFingerprint(FingerprintOf(broadcast), std::vector<Rank>{4, 5, 6, 7}),
            "broadcast(root 6, float32, 1 element)");
  OperationSpec barrier;
  EXPECT_EQ(DescribeFingerprint(FingerprintOf(barrier)), "barrier");
  Fingerprint garbage;
  garbage.fill(std::byte{0xff});
  EXPECT_EQ(DescribeFingerprint(garbage), "unknown operation");
}

TEST(Fingerprint, DiffersWhereRanksMustAgree) {
  const Fingerprint base = FingerprintOf(AllReduceSpec(1024));
  EXPECT_EQ(base, FingerprintOf(AllReduceSpec(1024)));
  OperationSpec spec = AllReduceSpec(1024);
  spec.reduce_op = ReduceOp::kMax;
  EXPECT_NE(base, FingerprintOf(spec));
  spec = AllReduceSpec(1024);
  spec.type = DataType::kInt32;
  EXPECT_NE(base, FingerprintOf(spec));
  spec = AllReduceSpec(1024);
  spec.algorithm = "ring";
  EXPECT_NE(base, FingerprintOf(spec));
  EXPECT_NE(base, FingerprintOf(AllReduceSpec(1025)));
  EXPECT_NE(base, FingerprintOf(AllReduceSpec(1024), {.lane_bytes = 1024})) << "other lanes";
  spec = AllReduceSpec(1024);  // what only this rank knows
  spec.premul_factor = 3;
  spec.timeout = std::chrono::seconds(1);
  EXPECT_EQ(base, FingerprintOf(spec));
}

}  // namespace
}  // namespace rocecoll
