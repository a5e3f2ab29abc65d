// SPDX-License-Identifier: Apache-2.0
// What the chosen programs cost in groups of up to 16384 ranks, and what one rank more than a power
// of two adds. The tables of docs/scaling.md are the output of this test.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <vector>

#include "collectives/selector.h"
#include "proof/closed_forms.h"

namespace rocecoll {
namespace {

constexpr std::array<uint32_t, 3> kRanks = {1024, 4096, 16384};
constexpr double kMaxRatio = 1.15;
constexpr uint64_t kKiB = 1024;
constexpr uint64_t kMiB = 1024 * kKiB;

struct Workload {
  Collective collective;
  uint64_t bytes = 0;
  bool per_rank = false;                // `bytes` is the size of one block
  uint32_t most_ranks = kRanks.back();  // fewer if a program has a step for each rank

  uint64_t vector_bytes(uint32_t ranks) const { return per_rank ? bytes * ranks : bytes; }
  std::string text() const {
    const std::string size = bytes < kKiB   ? std::to_string(bytes) + " B"
                             : bytes < kMiB ? std::to_string(bytes / kKiB) + " KiB"
                                            : std::to_string(bytes / kMiB) + " MiB";
    return std::string(ToString(collective)) + ", " + size + (per_rank ? " a rank" : "");
  }
};

std::vector<Workload> Workloads() {
  using enum Collective;
  std::vector<Workload> all;
  for (const uint64_t bytes : {uint64_t{8}, 16 * kKiB, kMiB, 64 * kMiB}) {
    for (const Collective collective : {kAllreduce, kBroadcast, kReduce})
      all.push_back({collective, bytes});
  }
  all.push_back({kAllreduce, 1024 * kMiB, false, 1024});  // 1024 ranks: a ring
  for (const uint64_t bytes : {uint64_t{8}, kKiB, 64 * kKiB}) {
    for (const Collective collective : {kReduceScatter, kAllgather})
      all.push_back({collective, bytes, true});
  }
  all.push_back({kAllgather, kMiB, true, 1024});
  for (const Collective collective : {kGather, kScatter, kAlltoall})
    all.push_back({collective, 64, true});
  all.push_back({kAlltoall, kKiB, true, 1024});
  all.push_back({kBarrier});
  return all;
}

struct Priced {
  std::string_view name;
  double us = 0;
};

Priced Price(const Workload& workload, uint32_t ranks) {
  const uint64_t bytes = workload.vector_bytes(ranks);
  const Program program =
      MakeProgram({.collective = workload.collective, .ranks = ranks, .bytes = bytes}).take();
  return {program.name, EstimateCostUs(program, workload.collective, program.root,
                                       Partition::Even(bytes, ranks), kNetworkCost)};
}

double ClosedFormUs(const Workload& workload, std::string_view name, uint32_t ranks) {
  const auto forms = ClosedForms(ranks);
  const auto form = std::ranges::find_if(forms, [&](const ClosedForm& candidate) {
    return candidate.collective == workload.collective && candidate.name == name;
  });
  if (form == forms.end()) {
    ADD_FAILURE() << "no closed form of " << name;
    return 0;
  }
  return form->us(workload.vector_bytes(ranks), kNetworkCost);
}

// A table's cell such as "120.0 us, 1.100": the time for this many ranks, and the factor for one
// more.
std::string Compare(const Workload& workload, uint32_t ranks, std::string& programs) {
  const Priced power = Price(workload, ranks);
  const double expected_us = ClosedFormUs(workload, power.name, ranks);
  EXPECT_NEAR(power.us, expected_us, 1e-6 * expected_us) << workload.text() << ", " << ranks;
  const Priced more = Price(workload, ranks + 1);
  const double ratio = more.us / power.us;
  EXPECT_LE(ratio, kMaxRatio) << workload.text() << ", " << ranks << ", " << power.name << ", then "
                              << more.name;
  programs = power.name;
  if (more.name != power.name) programs += ", " + std::string(more.name);
  std::array<char, 64> cell;
  std::snprintf(cell.data(), cell.size(), "%.1f us, %.3f", power.us, ratio);
  return cell.data();
}

TEST(Scaling, PowersOfTwoTakeWhatTheClosedFormsSayAndOneRankMoreLittleMore) {
  std::printf("| operation | program | 1024 | 4096 | 16384 |\n| --- | --- | --- | --- | --- |\n");
  for (const Workload& workload : Workloads()) {
    std::string programs, cells;
    for (const uint32_t ranks : kRanks) {
      const bool priced = ranks <= workload.most_ranks;
      cells += " " + (priced ? Compare(workload, ranks, programs) : "") + " |";
    }
    std::printf("| %s | %s |%s\n", workload.text().c_str(), programs.c_str(), cells.c_str());
  }
}

}  // namespace
}  // namespace rocecoll
