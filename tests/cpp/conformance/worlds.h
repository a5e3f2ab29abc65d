// SPDX-License-Identifier: Apache-2.0
// The transports and networks that the conformance suite runs over.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "conformance/world.h"

namespace rocecoll {

struct WorldSpec {
  size_t nodes = 2;
  bool tight = false;  // the smallest queues and fewest credits that the transport allows
  uint64_t seed = 1;   // of what networks do by chance
};

struct WorldKind {
  std::string name;
  std::function<std::unique_ptr<World>(const WorldSpec&)> make;
  bool seeded = true;  // one seed, one course; else time is real

  std::unique_ptr<World> operator()(size_t nodes) const { return make({.nodes = nodes}); }
  friend std::ostream& operator<<(std::ostream& to, const WorldKind& kind) {
    return to << kind.name;
  }
};

// Those that every machine has, and those that the command line adds.
const std::vector<WorldKind>& AllWorlds();

// What this run takes of the seeds from `first` on and before `last`: `count` of them, at night
// all, or the only one that the command line names.
std::vector<uint64_t> SeedsOfRun(uint64_t count, uint64_t first, uint64_t last);

// Which seed failed, and how to see it again.
inline std::string Replay(uint64_t seed) {
  const testing::TestInfo* const test = testing::UnitTest::GetInstance()->current_test_info();
  const std::string number = std::to_string(seed);
  return "seed " + number + ", alone: conformance_test --seed=" + number +
         " --gtest_filter=" + test->test_suite_name() + "." + test->name();
}

class Conformance : public testing::TestWithParam<WorldKind> {
 protected:
  std::unique_ptr<World> make(size_t nodes) const { return GetParam()(nodes); }
  std::unique_ptr<World> make_tight(size_t nodes) const {
    return GetParam().make({.nodes = nodes, .tight = true});
  }
};

inline std::string NameOf(const testing::TestParamInfo<WorldKind>& info) { return info.param.name; }

}  // namespace rocecoll
