// SPDX-License-Identifier: Apache-2.0
// The checker proves the programs that know hosts for many layouts, and the tests count what they
// send between hosts.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/arithmetic.h"
#include "collectives/host_layouts.h"
#include "collectives/program_list.h"
#include "collectives/proof/checker.h"

namespace rocecoll {
namespace {

class EveryHostProgram : public testing::TestWithParam<NamedAlgorithm> {
 protected:
  int check(const HostsOfRanks& hosts) {
    const auto [collective, name] = GetParam();
    const HostLayout layout(hosts);
    int checked = 0;
    for (const Rank root : RootsOf(collective, layout.ranks())) {
      const auto program = Make(collective, name, layout.ranks(), root, &layout);
      if (!program) continue;
      for (const bool in_place : {false, true}) {
        const Status status = CheckProgram(*program, collective, root, in_place).status();
        EXPECT_TRUE(status.ok()) << Text(hosts) << ", root " << root
                                 << (in_place ? ", in place: " : ": ") << status.message();
      }
      ++checked;
    }
    return checked;
  }
};

TEST_P(EveryHostProgram, IsRightForAnyLayoutOfFewRanks) {
  for (uint32_t ranks = 1; ranks <= 20; ++ranks) {
    int checked = 0;
    for (const HostsOfRanks& hosts : LayoutsOf(ranks)) checked += check(hosts);
    EXPECT_GT(checked, 1);
  }
}

// All ways to put up to six ranks on three hosts.
TEST_P(EveryHostProgram, IsRightForEachLayoutOfVeryFewRanks) {
  for (uint32_t ranks = 1, ways = 3; ranks <= 6; ++ranks, ways *= 3) {
    for (uint32_t way = 0; way < ways; ++way) {
      HostsOfRanks hosts;
      for (uint32_t rank = 0, rest = way; rank < ranks; ++rank, rest /= 3) {
        hosts.push_back(rest % 3);
      }
      check(hosts);
      if (testing::Test::HasFailure()) return;
    }
  }
}

TEST_P(EveryHostProgram, IsRightForHostsOfVeryDifferentSizes) {
  for (const std::vector<uint32_t>& sizes : UnevenSizes()) {
    check(OfSizes(sizes));
    check(Shuffled(OfSizes(sizes), sizes.size()));
  }
}

TEST_P(EveryHostProgram, IsRightForManyRanks) {
  for (const uint32_t ranks : {33u, 64u, 100u}) {
    for (const HostsOfRanks& hosts : LayoutsOf(ranks)) check(hosts);
  }
  EXPECT_GT(check(InOrder(1000, 8)), 0);
  EXPECT_GT(check(Dealt(512, 64)), 0);
}

TEST_P(EveryHostProgram, IsRefusedWhereHostsAreNotKnown) {
  const auto [collective, name] = GetParam();
  const Status status = MakeProgram({.collective = collective, .ranks = 4}, name).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
}

INSTANTIATE_TEST_SUITE_P(All, EveryHostProgram, testing::ValuesIn(Algorithms(true)), TestName);

// The traffic that leaves and enters each host, in blocks of the program.
struct HostTraffic {
  std::vector<uint64_t> sent;
  std::vector<uint64_t> received;
  uint64_t messages = 0;
  std::vector<uint32_t> sends;     // by rank
  std::vector<uint32_t> receives;  // by rank
};

HostTraffic TrafficOf(const Program& program, const HostLayout& layout) {
  HostTraffic traffic{.sent = std::vector<uint64_t>(layout.hosts()),
                      .received = std::vector<uint64_t>(layout.hosts()),
                      .sends = std::vector<uint32_t>(layout.ranks()),
                      .receives = std::vector<uint32_t>(layout.ranks())};
  const auto blocks = [&](const Blocks& sent) {
    if (program.order.empty() || sent.buffer == Buffer::kInput) return uint64_t{sent.count};
    uint64_t count = 0;
    for (uint32_t i = 0; i < sent.count; ++i) {
      if (program.order[sent.at(i, program.blocks)] != kNoRank) ++count;
    }
    return count;
  };
  for (uint32_t index = 0; index < program.steps; ++index) {
    for (Rank rank = 0; rank < program.ranks; ++rank) {
      for (const Transfer& transfer : program.step(rank, index)) {
        const uint32_t from = layout.host_of(rank);
        if (transfer.kind != Transfer::Kind::kSend || layout.host_of(transfer.peer) == from) {
          continue;
        }
        traffic.sent[from] += blocks(transfer.blocks);
        traffic.received[layout.host_of(transfer.peer)] += blocks(transfer.blocks);
        ++traffic.messages;
        ++traffic.sends[rank];
        ++traffic.receives[transfer.peer];
      }
    }
  }
  return traffic;
}

// Any allreduce has to send 2 (H - 1) / H of the vector out of a host, and as much into it, like
// any one of H ranks if these were alone on their hosts (Patarasuk and Yuan, JPDC 69(2), 2009).
TEST(HostPrograms, AllreduceByColumnsSendsTheFewestBytesBetweenHosts) {
  for (const uint32_t ranks : {4u, 5u, 6u, 8u, 12u, 16u, 31u}) {
    for (const HostsOfRanks& hosts : LayoutsOf(ranks)) {
      const HostLayout layout(hosts);
      if (!layout.spans_hosts()) continue;
      const auto program = Make(Collective::kAllreduce, "host_columns", ranks, 0, &layout);
      const HostTraffic traffic = TrafficOf(*program, layout);
      const uint64_t fewest = uint64_t{2} * (layout.hosts() - 1) * layout.columns();
      for (uint32_t host = 0; host < layout.hosts(); ++host) {
        EXPECT_EQ(traffic.sent[host], fewest) << Text(hosts);
        EXPECT_EQ(traffic.received[host], fewest) << Text(hosts);
      }
    }
  }
}

TEST(HostPrograms, AllgatherAndReduceScatterSendEachBlockOnceIntoOrOutOfAHost) {
  for (const uint32_t ranks : {4u, 5u, 6u, 8u, 12u, 16u, 31u}) {
    for (const HostsOfRanks& hosts : LayoutsOf(ranks)) {
      const HostLayout layout(hosts);
      if (!layout.spans_hosts() || !layout.has_cell_for_each_rank()) continue;
      const auto allgather = Make(Collective::kAllgather, "host_columns", ranks, 0, &layout);
      const auto reduce_scatter =
          Make(Collective::kReduceScatter, "host_columns", ranks, 0, &layout);
      const HostTraffic gathered = TrafficOf(*allgather, layout);
      const HostTraffic reduced = TrafficOf(*reduce_scatter, layout);
      for (uint32_t host = 0; host < layout.hosts(); ++host) {
        EXPECT_EQ(gathered.received[host], ranks - layout.ranks_on(host)) << Text(hosts);
        EXPECT_EQ(reduced.sent[host], ranks - layout.ranks_on(host)) << Text(hosts);
      }
    }
  }
}

TEST(HostPrograms, BroadcastSendsTheVectorOnceIntoEachOtherHost) {
  for (const uint32_t ranks : {4u, 7u, 8u, 12u}) {
    for (const HostsOfRanks& hosts : LayoutsOf(ranks)) {
      const HostLayout layout(hosts);
      if (!layout.spans_hosts()) continue;
      for (const std::string_view name : {"host_leaders", "host_columns"}) {
        const auto program = Make(Collective::kBroadcast, name, ranks, ranks - 1, &layout);
        const HostTraffic traffic = TrafficOf(*program, layout);
        for (uint32_t host = 0; host < layout.hosts(); ++host) {
          const bool has_root = host == layout.host_of(ranks - 1);
          EXPECT_EQ(traffic.received[host], has_root ? 0 : program->blocks) << Text(hosts);
        }
      }
    }
  }
}

// Two to four hosts with one to six ranks each.
TEST(HostPrograms, AlltoallIsRightForEachUnevenLayoutOfFewHosts) {
  for (uint32_t hosts = 2, ways = 36; hosts <= 4; ++hosts, ways *= 6) {
    for (uint32_t way = 0; way < ways; ++way) {
      std::vector<uint32_t> sizes;
      for (uint32_t host = 0, rest = way; host < hosts; ++host, rest /= 6) {
        sizes.push_back(1 + rest % 6);
      }
      const HostLayout layout(OfSizes(sizes));
      if (!layout.spans_hosts()) continue;
      const auto program = Make(Collective::kAlltoall, "host_columns", layout.ranks(), 0, &layout);
      ASSERT_TRUE(program);
      const auto report = CheckProgram(*program, Collective::kAlltoall);
      ASSERT_TRUE(report.ok()) << Text(OfSizes(sizes)) << ": " << report.status().message();
      ASSERT_LT(report.value().blocks_sent, 2 * layout.ranks()) << Text(OfSizes(sizes));
      ASSERT_LT(program->work_blocks, layout.ranks() + layout.most_on_a_host());
    }
  }
}

// There is one message from each host to each rank of the others, and the ranks of a host share in
// sending them. So the most that any rank sends is what a rank of the smallest host sends.
TEST(HostPrograms, AlltoallSendsOneMessageFromAHostToEachRankOfTheOthers) {
  for (const std::vector<uint32_t>& sizes : UnevenSizes()) {
    const HostsOfRanks hosts = Shuffled(OfSizes(sizes), 1);
    const HostLayout layout(hosts);
    const uint32_t ranks = layout.ranks();
    const auto program = Make(Collective::kAlltoall, "host_columns", ranks, 0, &layout);
    ASSERT_TRUE(program) << Text(hosts);
    const HostTraffic traffic = TrafficOf(*program, layout);
    EXPECT_EQ(traffic.receives, std::vector<uint32_t>(ranks, layout.hosts() - 1)) << Text(hosts);
    for (Rank rank = 0; rank < ranks; ++rank) {
      const uint32_t on_host = layout.ranks_on(layout.host_of(rank));
      EXPECT_LE(traffic.sends[rank], CeilDivide(ranks, on_host) - 1) << Text(hosts);
    }
    for (uint32_t host = 0; host < layout.hosts(); ++host) {
      const uint64_t on_host = layout.ranks_on(host);
      EXPECT_EQ(traffic.sent[host], on_host * (ranks - on_host)) << Text(hosts);
    }
    const uint32_t leg = CeilDivide((ranks - 1) / layout.fewest_on_a_host(), 7);
    EXPECT_EQ(program->steps, CeilDivide(layout.most_on_a_host() - 1, 7) + leg) << Text(hosts);
  }
}

TEST(HostPrograms, LeadersSendTheFewestMessagesBetweenHosts) {
  const HostLayout layout(InOrder(32, 8));
  const auto messages = [&](Collective collective, std::string_view name) {
    return TrafficOf(*Make(collective, name, 32, 0, &layout), layout).messages;
  };
  EXPECT_EQ(messages(Collective::kAllreduce, "host_leaders"), 8u);
  EXPECT_EQ(messages(Collective::kAllreduce, "recursive_doubling"), 64u);
  EXPECT_EQ(messages(Collective::kBarrier, "host_leaders"), 8u);
  EXPECT_EQ(messages(Collective::kBroadcast, "host_leaders"), 3u);
  EXPECT_EQ(messages(Collective::kReduce, "host_leaders"), 3u);
  EXPECT_EQ(messages(Collective::kAlltoall, "host_columns"), 32 * 3u);
  EXPECT_EQ(messages(Collective::kAlltoall, "pairwise"), 32 * 24u);
}

}  // namespace
}  // namespace rocecoll
