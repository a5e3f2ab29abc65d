// SPDX-License-Identifier: Apache-2.0
#include "collectives/selector.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "collectives/host_layouts.h"
#include "collectives/program_list.h"

namespace rocecoll {
namespace {

constexpr uint64_t kKiB = 1024;

std::string Chosen(Collective collective, uint32_t ranks, uint64_t bytes, bool uniform = true) {
  const auto program =
      MakeProgram({.collective = collective, .ranks = ranks, .bytes = bytes, .uniform = uniform});
  return program.ok() ? std::string(program.value().name) : program.status().message();
}

TEST(Selector, AllreduceGoesFromLatencyToBandwidth) {
  EXPECT_EQ(Chosen(Collective::kAllreduce, 2, 64 * kKiB), "recursive_doubling");
  EXPECT_EQ(Chosen(Collective::kAllreduce, 2, 64 * kKiB + 1), "halving_doubling");
  EXPECT_EQ(Chosen(Collective::kAllreduce, 2, 1u << 30), "halving_doubling");
  EXPECT_EQ(Chosen(Collective::kAllreduce, 8, 16 * kKiB), "recursive_doubling");
  EXPECT_EQ(Chosen(Collective::kAllreduce, 8, 16 * kKiB + 1), "halving_doubling");
  EXPECT_EQ(Chosen(Collective::kAllreduce, 8, 8 * 700'000), "ring");
  EXPECT_EQ(Chosen(Collective::kAllreduce, 6, 16 * kKiB), "recursive_doubling");
  EXPECT_EQ(Chosen(Collective::kAllreduce, 6, 16 * kKiB + 1), "circulant");
  EXPECT_EQ(Chosen(Collective::kAllreduce, 6, 6 * 700'000), "ring");
}

TEST(Selector, OtherCollectivesGoFromLatencyToBandwidth) {
  EXPECT_EQ(Chosen(Collective::kReduceScatter, 8, kKiB), "circulant");
  EXPECT_EQ(Chosen(Collective::kReduceScatter, 8, 8 * 700'000), "ring");
  EXPECT_EQ(Chosen(Collective::kAllgather, 5, kKiB), "circulant");
  EXPECT_EQ(Chosen(Collective::kAllgather, 5, 5 * 700'000), "ring");
  EXPECT_EQ(Chosen(Collective::kAllgather, 2, 1u << 30), "circulant");
  EXPECT_EQ(Chosen(Collective::kBroadcast, 5, 32 * kKiB), "binomial");
  EXPECT_EQ(Chosen(Collective::kBroadcast, 5, 32 * kKiB + 1), "scatter_allgather");
  EXPECT_EQ(Chosen(Collective::kBroadcast, 3, 3 * 256 * kKiB), "chain");
  EXPECT_EQ(Chosen(Collective::kBroadcast, 9, 9 * 256 * kKiB), "chain");
  EXPECT_EQ(Chosen(Collective::kBroadcast, 9, 9 * 256 * kKiB - 1), "scatter_allgather");
  EXPECT_EQ(Chosen(Collective::kBroadcast, 10, 10 * 512 * kKiB - 1), "scatter_allgather");
  EXPECT_EQ(Chosen(Collective::kBroadcast, 10, 10 * 512 * kKiB), "chain");
  EXPECT_EQ(Chosen(Collective::kBroadcast, 256, 1u << 30), "chain");
  EXPECT_EQ(Chosen(Collective::kBroadcast, 257, 1u << 30), "scatter_allgather");
  EXPECT_EQ(Chosen(Collective::kBroadcast, 2, 1u << 30), "binomial");
  EXPECT_EQ(Chosen(Collective::kReduce, 5, 32 * kKiB), "binomial");
  EXPECT_EQ(Chosen(Collective::kReduce, 5, 32 * kKiB + 1), "reduce_scatter_gather");
  EXPECT_EQ(Chosen(Collective::kGather, 8, 8 * 16 * kKiB), "binomial");
  EXPECT_EQ(Chosen(Collective::kGather, 8, 8 * 17 * kKiB), "linear");
  EXPECT_EQ(Chosen(Collective::kScatter, 3, 8), "linear");
  EXPECT_EQ(Chosen(Collective::kAlltoall, 8, 8 * 256), "bruck");
  EXPECT_EQ(Chosen(Collective::kAlltoall, 8, 8 * 257), "pairwise");
  EXPECT_EQ(Chosen(Collective::kAlltoall, 7, 8), "pairwise");
  EXPECT_EQ(Chosen(Collective::kBarrier, 7, 1), "dissemination");
  EXPECT_EQ(Chosen(Collective::kSend, 7, 1), "direct");
  EXPECT_EQ(Chosen(Collective::kRecv, 7, 1), "direct");
}

// For several hosts on which ranks share a host.
TEST(Selector, ChoosesByHosts) {
  const auto chosen = [](const HostsOfRanks& hosts, Collective collective, uint64_t bytes,
                         bool uniform = true) {
    const HostLayout layout(hosts);
    const auto program = MakeProgram({.collective = collective,
                                      .ranks = layout.ranks(),
                                      .bytes = bytes,
                                      .uniform = uniform,
                                      .hosts = &layout});
    return program.ok() ? std::string(program.value().name) : program.status().message();
  };
  const HostsOfRanks two_by_two = InOrder(4, 2), dealt = Dealt(4, 2), uneven = InOrder(7, 4);
  EXPECT_EQ(chosen(two_by_two, Collective::kAllreduce, 8 * kKiB), "recursive_doubling");
  EXPECT_EQ(chosen(two_by_two, Collective::kAllreduce, 8 * kKiB + 1), "host_leaders");
  EXPECT_EQ(chosen(dealt, Collective::kAllreduce, 8), "host_leaders");
  EXPECT_EQ(chosen(uneven, Collective::kAllreduce, 8), "host_leaders");
  EXPECT_EQ(chosen(two_by_two, Collective::kAllreduce, 128 * kKiB), "host_leaders");
  EXPECT_EQ(chosen(two_by_two, Collective::kAllreduce, 128 * kKiB + 1), "host_columns");
  EXPECT_EQ(chosen(uneven, Collective::kAllreduce, 64 * kKiB + 1), "host_columns");
  EXPECT_EQ(chosen(InOrder(64, 8), Collective::kAllreduce, 1u << 30), "host_columns");
  EXPECT_EQ(chosen(InOrder(64, 8), Collective::kAllreduce, 512), "host_leaders");
  EXPECT_EQ(chosen(two_by_two, Collective::kReduce, 1u << 30), "host_leaders");
  EXPECT_EQ(chosen(InOrder(64, 8), Collective::kReduce, 1u << 30), "reduce_scatter_gather");
  EXPECT_EQ(chosen(uneven, Collective::kReduceScatter, 7 * 699'000, false), "host_columns");
  EXPECT_EQ(chosen(uneven, Collective::kReduceScatter, 7 * 700'000, false), "host_ring");
  EXPECT_EQ(chosen(uneven, Collective::kAllgather, 7 * 64 * kKiB - 1, false), "host_columns");
  EXPECT_EQ(chosen(dealt, Collective::kAllgather, 4 * 64 * kKiB), "host_ring");
  EXPECT_EQ(chosen(two_by_two, Collective::kBroadcast, 1u << 30), "host_leaders");
  EXPECT_EQ(chosen(InOrder(64, 8), Collective::kBroadcast, 1u << 30), "host_columns");
  EXPECT_EQ(chosen(InOrder(64, 8), Collective::kBroadcast, 1u << 20), "host_leaders");
  EXPECT_EQ(chosen(InOrder(128, 2), Collective::kBroadcast, 6u << 20), "host_columns");
  EXPECT_EQ(chosen(InOrder(128, 2), Collective::kBroadcast, 5u << 20), "host_leaders");
  EXPECT_EQ(chosen(InOrder(512, 2), Collective::kBroadcast, 1u << 30), "host_columns");
  EXPECT_EQ(chosen(InOrder(514, 2), Collective::kBroadcast, 1u << 30), "host_leaders");
  EXPECT_EQ(chosen(two_by_two, Collective::kAlltoall, 4 * 4 * kKiB), "host_columns");
  EXPECT_EQ(chosen(two_by_two, Collective::kAlltoall, 4 * 4 * kKiB + 4), "pairwise");
  EXPECT_EQ(chosen(two_by_two, Collective::kAlltoall, 0, false), "pairwise");
  EXPECT_EQ(chosen(uneven, Collective::kAlltoall, 7 * 4 * kKiB), "host_columns");
  EXPECT_EQ(chosen(uneven, Collective::kAlltoall, 7 * 4 * kKiB + 7), "pairwise");
  EXPECT_EQ(chosen(uneven, Collective::kAlltoall, 0, false), "pairwise");
  EXPECT_EQ(chosen(dealt, Collective::kBarrier, 0), "host_leaders");
  EXPECT_EQ(chosen(two_by_two, Collective::kGather, 8), "binomial");
  // Nothing is packed if a host has a single rank, or over eight times the ranks of another.
  EXPECT_EQ(chosen(OfSizes({2, 1}), Collective::kAlltoall, 3), "pairwise");
  EXPECT_EQ(chosen(OfSizes({8, 8, 1}), Collective::kAlltoall, 17 * kKiB), "pairwise");
  EXPECT_EQ(chosen(OfSizes({2, 16}), Collective::kAlltoall, 18 * kKiB), "host_columns");
  EXPECT_EQ(chosen(OfSizes({2, 17}), Collective::kAlltoall, 19 * kKiB), "pairwise");
  // Small blocks are packed up to 3 log2 p messages between hosts, or from 3 KiB in each message.
  EXPECT_EQ(chosen(OfSizes({8, 8, 2}), Collective::kAlltoall, 18), "host_columns");
  EXPECT_EQ(chosen(InOrder(64, 8), Collective::kAlltoall, 64 * 8), "host_columns");
  EXPECT_EQ(chosen(InOrder(38, 2), Collective::kAlltoall, 38), "host_columns");
  EXPECT_EQ(chosen(InOrder(40, 2), Collective::kAlltoall, 40), "bruck");
  EXPECT_EQ(chosen(InOrder(512, 8), Collective::kAlltoall, 512 * 47), "bruck");
  EXPECT_EQ(chosen(InOrder(512, 8), Collective::kAlltoall, 512 * 48), "host_columns");
  EXPECT_EQ(chosen(OfSizes({8, 8, 1}), Collective::kAlltoall, 17), "bruck");
  // A host with more than seven times the ranks of another, and groups that have nothing to gain.
  HostsOfRanks lopsided(9, 0);
  lopsided.back() = 1;
  EXPECT_EQ(chosen(lopsided, Collective::kReduceScatter, 9), "circulant");
  EXPECT_EQ(chosen(lopsided, Collective::kAllreduce, 1u << 30), "host_columns");
  EXPECT_EQ(chosen(HostsOfRanks(4, 0), Collective::kAllreduce, 1u << 20), "halving_doubling");
  EXPECT_EQ(chosen(Dealt(4, 4), Collective::kBarrier, 0), "dissemination");
}

// The name of a program for several hosts may be set for all groups, some of which are on one host.
TEST(Selector, NamesForHostsMeanNothingOnOne) {
  for (const HostsOfRanks& hosts : {HostsOfRanks(4, 0), Dealt(4, 4)}) {
    const HostLayout layout(hosts);
    for (const Collective collective : {Collective::kAllreduce, Collective::kAllgather}) {
      const ProgramRequest request{
          .collective = collective, .ranks = 4, .bytes = 100, .hosts = &layout};
      EXPECT_EQ(MakeProgram(request, "host_columns").value().name,
                MakeProgram(request).value().name);
    }
  }
}

// No rank of a gatherv, scatterv or alltoallv knows all sizes, so the sizes must not matter.
TEST(Selector, SizesDoNotMatterWhereRanksCannotAgreeOnThem) {
  for (const Collective collective :
       {Collective::kGather, Collective::kScatter, Collective::kAlltoall}) {
    for (const uint32_t ranks : {2u, 8u, 100u}) {
      std::set<std::string> chosen;
      for (const uint64_t bytes : {uint64_t{0}, uint64_t{8}, kKiB, uint64_t{1} << 30}) {
        chosen.insert(Chosen(collective, ranks, bytes, false));
      }
      EXPECT_EQ(chosen.size(), 1u);
    }
  }
}

TEST(Selector, AlwaysChoosesSomethingOffered) {
  for (const Collective collective : kAllCollectives) {
    const auto names = AlgorithmNames(collective);
    EXPECT_FALSE(names.empty());
    for (const uint32_t ranks : {2u, 3u, 4u, 7u, 8u, 100u, 1024u, 65536u}) {
      for (uint64_t bytes = 0; bytes < uint64_t{1} << 40; bytes = bytes * 3 + 1) {
        for (const bool uniform : {true, false}) {
          const std::string chosen = Chosen(collective, ranks, bytes, uniform);
          EXPECT_NE(std::find(names.begin(), names.end(), chosen), names.end()) << chosen;
          EXPECT_EQ(chosen, Chosen(collective, ranks, bytes, uniform));
        }
      }
    }
  }
}

// The whole choice is the same for any root, because the ranks share nothing else to decide by.
TEST(Selector, TheRootDoesNotMatter) {
  for (const Collective collective : kAllCollectives) {
    for (const uint64_t bytes : {uint64_t{1}, 100 * kKiB}) {
      const auto first = MakeProgram({collective, 8, 0, bytes, true});
      const auto last = MakeProgram({collective, 8, 7, bytes, true});
      EXPECT_EQ(first.value().name, last.value().name);
    }
  }
}

TEST(Selector, OneRankNeedsNoAlgorithm) {
  for (const Collective collective : kAllCollectives) {
    if (IsPointToPoint(collective)) {
      EXPECT_FALSE(MakeProgram({.collective = collective}).ok());
      continue;
    }
    EXPECT_EQ(Chosen(collective, 1, 100), "local");
    for (const std::string_view name : AlgorithmNames(collective)) {
      EXPECT_TRUE(MakeProgram({.collective = collective}, name).ok());
    }
    EXPECT_FALSE(MakeProgram({.collective = collective}, "local").ok());
  }
}

TEST(Selector, RefusesWhatCannotBeDone) {
  const auto refused = [](const ProgramRequest& request, std::string_view name) {
    const Status status = MakeProgram(request, name).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    return status.message();
  };
  EXPECT_EQ(refused({.collective = Collective::kAllreduce, .ranks = 4}, "quick"),
            "allreduce: no algorithm is named 'quick'");
  EXPECT_EQ(refused({.collective = Collective::kBroadcast, .ranks = 4}, "ring"),
            "broadcast: no algorithm is named 'ring'");
  EXPECT_EQ(refused({.collective = Collective::kAllreduce, .ranks = 6}, "halving_doubling"),
            "allreduce: halving_doubling needs a number of ranks that is a power of two");
  for (const auto& [collective, name] : {std::pair{Collective::kAlltoall, "bruck"},
                                         {Collective::kGather, "binomial"},
                                         {Collective::kScatter, "binomial"}}) {
    refused({.collective = collective, .ranks = 8, .uniform = false}, name);
  }
  refused({.collective = Collective::kBroadcast, .ranks = 4, .root = 4}, "");
  refused({.collective = Collective::kBarrier, .ranks = 0}, "");
  refused({.collective = Collective::kBarrier, .ranks = 65537}, "");
}

}  // namespace
}  // namespace rocecoll
