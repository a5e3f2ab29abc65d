// SPDX-License-Identifier: Apache-2.0
// Groups of engines on a network and among processes that do everything wrong, seed by seed, as
// FoundationDB and TigerBeetle simulate their clusters. The command line:
//   --seeds=N    runs N seeds instead of 1000
//   --seed=N     runs this one alone and shows what it stands for
#include <gtest/gtest.h>

#include <charconv>
#include <cstdio>
#include <string_view>

#include "swarm/describe_plan.h"
#include "swarm/draw_plan.h"
#include "swarm/swarm_run.h"

namespace rocecoll {
namespace {

// By main(), before the tests run.
uint64_t seeds = 1000;
uint64_t only_seed = 0;

SwarmResult RunSeed(uint64_t seed) {
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  const SwarmPlan plan = DrawPlan(seed);
  const SwarmResult result = RunPlan(plan);
  if (result.errors.empty()) return result;
  testing::Message text;
  for (size_t i = 0; i < std::min<size_t>(result.errors.size(), 8); ++i) {
    text << result.errors[i] << "\n";
  }
  ADD_FAILURE() << text << Describe(plan) << "replay: swarm_test --seed=" << seed;
  return result;
}

void RunSeeds(uint64_t first, uint64_t count) {
  uint64_t ended = 0;
  uint64_t packets = 0;
  uint64_t parts = 0;
  Duration time{0};
  for (uint64_t seed = first; seed < first + count; ++seed) {
    const SwarmResult result = RunSeed(seed);
    ended += result.failed ? 1 : 0;
    packets += result.packets;
    parts += result.parts_done;
    time += result.virtual_time;
  }
  std::printf("%llu seeds: %llu ended their group, %llu calls done, %llu packets, %.0f s\n",
              static_cast<unsigned long long>(count), static_cast<unsigned long long>(ended),
              static_cast<unsigned long long>(parts), static_cast<unsigned long long>(packets),
              Seconds(time));
  EXPECT_GT(parts, count);
}

TEST(Swarm, TwentySeeds) {
  if (only_seed == 0) RunSeeds(1, 20);
}

TEST(Swarm, SlowManySeeds) {
  if (only_seed == 0) return RunSeeds(1, seeds);
  std::printf("%s", Describe(DrawPlan(only_seed)).c_str());
  RunSeed(only_seed);
}

TEST(Swarm, OneSeedOneTrace) {
  for (const uint64_t seed : {3u, 4u, 5u}) {
    const SwarmResult first = RunPlan(DrawPlan(seed));
    const SwarmResult second = RunPlan(DrawPlan(seed));
    EXPECT_EQ(first.trace, second.trace) << "seed " << seed;
    EXPECT_EQ(first.packets, second.packets) << "seed " << seed;
    EXPECT_NE(first.trace, RunPlan(DrawPlan(seed + 1)).trace);
  }
}

bool TakesNumber(std::string_view argument, std::string_view flag, uint64_t& value) {
  if (!argument.starts_with(flag)) return true;
  argument.remove_prefix(flag.size());
  const auto [end, error] =
      std::from_chars(argument.data(), argument.data() + argument.size(), value);
  return error == std::errc() && end == argument.data() + argument.size() && value > 0;
}

}  // namespace

bool TakeOption(std::string_view argument) {
  return TakesNumber(argument, "--seeds=", seeds) && TakesNumber(argument, "--seed=", only_seed);
}

}  // namespace rocecoll

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    if (rocecoll::TakeOption(argv[i])) continue;
    std::fprintf(stderr, "takes a number above 0: %s\n", argv[i]);
    return 2;
  }
  return RUN_ALL_TESTS();
}
