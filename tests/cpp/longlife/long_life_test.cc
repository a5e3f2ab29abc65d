// SPDX-License-Identifier: Apache-2.0
// What a job meets after days, gigabytes and many thousand groups, in virtual time: nothing may
// grow, wear out or be taken for a death. The command line:
//   --scale=N    N times as long, 8 in the nightly run; 4000 moves a terabyte, 80 uses ten million
//                tags
#include <gtest/gtest.h>

#include <array>
#include <charconv>
#include <cstdio>
#include <string_view>

#include "base/random.h"
#include "base/run_choice.h"
#include "conformance/world_cluster.h"
#include "datagram/transport_world.h"
#include "engine/call.h"
#include "longlife/heap_bytes.h"

namespace rocecoll {
namespace {

// By main(), before the tests run.
uint64_t scale = IsNightly() ? 8 : 1;

void ExpectHealthy(WorldCluster& cluster) {
  for (Rank rank = 0; rank < cluster.ranks(); ++rank) {
    const Status status = cluster.engine(rank).group_status(cluster.group());
    EXPECT_TRUE(status.ok()) << "rank " << rank << ": " << status.message();
  }
  RunCall(cluster, {.elements = 30000});
}

TEST(LongLife, HoursOfIdling) {
  WorldCluster cluster(std::make_unique<SimWorld>(2, SimWire{.loss = 0.001}));
  RunCall(cluster, {.elements = 30000});
  cluster.settle(std::chrono::hours(1));
  const size_t before = HeapBytes();
  cluster.settle(scale * std::chrono::hours(3));
  EXPECT_LE(HeapBytes(), before + kNoise);
  ExpectHealthy(cluster);
}

// The receiver of a broadcast sends nothing but acknowledgements.
TEST(LongLife, ManyBytesInOneDirection) {
  const SimPortOptions port{.max_datagram_bytes = 16 * 1024, .receive_buffer_bytes = 4 << 20};
  const SimWire wire{.bytes_per_second = 1e10, .loss = 1e-5};
  WorldCluster cluster(std::make_unique<SimWorld>(2, wire, 1, port));
  constexpr uint64_t kBytes = uint64_t{16} << 20;
  const CallSpec spec{.collective = Collective::kBroadcast, .elements = kBytes / 4};
  RunCall(cluster, spec);
  cluster.forget_completed();
  const size_t before = HeapBytes();
  for (uint64_t moved = 0; moved < scale * (uint64_t{256} << 20); moved += kBytes) {
    RunCall(cluster, spec);
    ASSERT_FALSE(testing::Test::HasFailure()) << "after " << moved << " bytes";
    cluster.forget_completed();
  }
  EXPECT_LE(HeapBytes(), before + kNoise);
  ExpectHealthy(cluster);
}

TEST(LongLife, ManyGroupsMadeAndEnded) {
  WorldCluster cluster(std::make_unique<SimWorld>(2));
  size_t before = 0;
  const uint64_t groups = scale * 12500;
  for (uint64_t i = 0; i < groups; ++i) {
    if (i == groups / 4) before = HeapBytes();
    const GroupId group = cluster.add_group("short", 1000 + i);
    Call call(cluster, {.elements = 8}, group);
    call.submit_all();
    ASSERT_TRUE(call.run()) << "group " << i;
    call.check();
    for (Rank rank = 0; rank < 2; ++rank) cluster.engine(rank).remove_group(group);
    cluster.forget_completed();
  }
  cluster.settle(std::chrono::seconds(2));
  EXPECT_LE(HeapBytes(), before + kNoise);
  ExpectHealthy(cluster);
}

// No tag is used twice, and none is next to another.
TEST(LongLife, ManyTags) {
  WorldCluster cluster(std::make_unique<SimWorld>(2, SimWire{.loss = 1e-4}));
  Random random(8);
  constexpr uint64_t kBatch = 100;
  std::array<int32_t, kBatch> sent{};
  std::array<int32_t, kBatch> received{};
  const auto spec = [](Collective collective, int32_t& value, Rank peer, uint32_t tag) {
    OperationSpec op;
    op.collective = collective;
    op.type = DataType::kInt32;
    op.root = peer;
    op.user_tag = tag;
    (collective == Collective::kSend ? op.input : op.output) = {&value, Partition::Even(1, 1)};
    return op;
  };
  size_t before = 0;
  const uint64_t tags = scale * 125000;
  for (uint64_t moved = 0; moved < tags; moved += kBatch) {
    if (moved >= tags / 4 && before == 0) before = HeapBytes();
    std::vector<OperationPtr> operations;
    for (uint64_t i = 0; i < kBatch; ++i) {
      const auto tag = static_cast<uint32_t>(random.below(uint64_t{1} << 31));
      const Rank from = i % 2;
      sent[i] = static_cast<int32_t>(moved + i);
      operations.push_back(cluster.submit(from, spec(Collective::kSend, sent[i], 1 - from, tag)));
      operations.push_back(
          cluster.submit(1 - from, spec(Collective::kRecv, received[i], from, tag)));
    }
    ASSERT_TRUE(cluster.run_until_done(operations)) << "after " << moved << " messages";
    ASSERT_EQ(sent, received);
    cluster.forget_completed();
  }
  EXPECT_LE(HeapBytes(), before + kNoise);
  ExpectHealthy(cluster);
}

}  // namespace

bool TakeScale(std::string_view argument) {
  constexpr std::string_view kFlag = "--scale=";
  if (!argument.starts_with(kFlag)) return true;
  argument.remove_prefix(kFlag.size());
  const char* const end = argument.data() + argument.size();
  return std::from_chars(argument.data(), end, scale).ptr == end && scale > 0;
}

}  // namespace rocecoll

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    if (rocecoll::TakeScale(argv[i])) continue;
    std::fprintf(stderr, "takes a number above 0: %s\n", argv[i]);
    return 2;
  }
  return RUN_ALL_TESTS();
}
