// SPDX-License-Identifier: Apache-2.0
// Groups of engines on a network and among processes that do everything wrong, seed by seed, as
// FoundationDB and TigerBeetle simulate their clusters. The command line:
//   --seeds=N          runs the seeds from 1 to N, instead of 200
//   --seed=N           runs this one alone and shows what it stands for
//   --fresh-seconds=N  runs for so long seeds that are this commit's own; else TEST_FRESH_SECONDS
#include <gtest/gtest.h>

#include <charconv>
#include <chrono>
#include <cstdio>
#include <string_view>

#include "base/run_choice.h"
#include "swarm/describe_plan.h"
#include "swarm/draw_plan.h"
#include "swarm/failed_seeds.h"
#include "swarm/swarm_run.h"

namespace rocecoll {
namespace {

// By main(), before the tests run.
uint64_t seeds = IsNightly() ? 1000 : 200;
uint64_t only_seed = 0;
uint64_t fresh_seconds = NumberOfEnvironment("TEST_FRESH_SECONDS", 0);

// A seed that fails prints its whole plan, and others may well fail for the same reason.
constexpr uint64_t kEnoughFailures = 5;

// What seeds came to.
struct Course {
  uint64_t seeds = 0;
  uint64_t failures = 0;
  uint64_t ended = 0;
  uint64_t packets = 0;
  uint64_t parts = 0;
  Duration time{0};

  void run(uint64_t seed);
  void print() const {
    std::printf("%llu seeds: %llu ended their group, %llu calls done, %llu packets, %.0f s\n",
                static_cast<unsigned long long>(seeds), static_cast<unsigned long long>(ended),
                static_cast<unsigned long long>(parts), static_cast<unsigned long long>(packets),
                Seconds(time));
  }
};

void Course::run(uint64_t seed) {
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  const SwarmPlan plan = DrawPlan(seed);
  const SwarmResult result = RunPlan(plan);
  ++seeds;
  ended += result.failed ? 1 : 0;
  packets += result.packets;
  parts += result.parts_done;
  time += result.virtual_time;
  if (result.errors.empty()) return;
  ++failures;
  testing::Message text;
  for (size_t i = 0; i < std::min<size_t>(result.errors.size(), 8); ++i) {
    text << result.errors[i] << "\n";
  }
  ADD_FAILURE() << text << Describe(plan) << "replay: swarm_test --seed=" << seed;
}

void RunSeeds(uint64_t first, uint64_t count) {
  Course course;
  for (uint64_t seed = first; seed < first + count; ++seed) course.run(seed);
  course.print();
  EXPECT_GT(course.parts, count);
}

TEST(Swarm, TwentySeeds) {
  if (only_seed == 0) RunSeeds(1, 20);
}

TEST(Swarm, SeedsThatHaveFailed) {
  if (only_seed != 0) return;
  Course course;
  for (const uint64_t seed : kFailedSeeds) course.run(seed);
  course.print();
}

TEST(Swarm, ManySeedsSlow) {
  if (only_seed == 0) return RunSeeds(1, seeds);
  std::printf("%s", Describe(DrawPlan(only_seed)).c_str());
  Course().run(only_seed);
}

// As many as the time allows: how many that are decides nothing.
TEST(Swarm, FreshSeedsSlow) {
  if (only_seed != 0) return;
  if (fresh_seconds == 0) GTEST_SKIP() << "no --fresh-seconds, no TEST_FRESH_SECONDS";
  using Clock = std::chrono::steady_clock;
  // Above all fixed ones, and far enough from those of other runs.
  const uint64_t first = (RunSeed() + 1) << 20;
  const Clock::time_point begin = Clock::now();
  Course course;
  while (Clock::now() - begin < std::chrono::seconds(fresh_seconds) &&
         course.failures < kEnoughFailures) {
    course.run(first + course.seeds);
  }
  const double spent = std::chrono::duration<double>(Clock::now() - begin).count();
  std::printf("fresh seeds %llu ...: %llu in %.0f s, %.1f a second\n",
              static_cast<unsigned long long>(first), static_cast<unsigned long long>(course.seeds),
              spent, static_cast<double>(course.seeds) / spent);
  course.print();
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
  return TakesNumber(argument, "--seeds=", seeds) && TakesNumber(argument, "--seed=", only_seed) &&
         TakesNumber(argument, "--fresh-seconds=", fresh_seconds);
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
