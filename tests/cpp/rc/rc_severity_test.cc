// SPDX-License-Identifier: Apache-2.0
// What is a warning to those who have asked for RoCE is a note to those who have not.
#include <chrono>

#include "rc/rc_pair.h"

namespace rocecoll {
namespace {

std::vector<std::string> LinesWith(const std::string& part) {
  std::vector<std::string> lines = RcWorld::log();
  std::erase_if(lines, [&](const std::string& line) { return line.find(part) == line.npos; });
  return lines;
}

TEST(RcSeverity, OfMemoryThatCannotBeRegistered) {
  for (const bool expected : {false, true}) {
    RcWorldOptions options;
    options.rc.expected = expected;
    Pair pair(options);
    CarryWhatCannotBeRegistered(pair);
    const auto lines = LinesWith("): memory cannot be registered, so that large messages go over");
    ASSERT_EQ(lines.size(), 1u);
    EXPECT_TRUE(lines[0].starts_with(expected ? "warning: " : "info: ")) << lines[0];
  }
}

TEST(RcSeverity, OfAPortThatNobodyUses) {
  for (const bool expected : {false, true}) {
    for (const bool used : {false, true}) {
      RcWorldOptions options;
      options.rc.expected = expected;
      RcWorld world(2, options);
      const auto on_path = [&] { return world.transports[0]->links_on_path() == 1; };
      if (used) {
        world.connect(0, 1);
        ASSERT_TRUE(world.run(on_path));
      }
      world.fabric.set_port(0, false);
      world.run_for(std::chrono::seconds(1));
      const auto lines = LinesWith("port is down");
      ASSERT_FALSE(lines.empty());
      EXPECT_TRUE(lines[0].starts_with(expected || used ? "warning: " : "info: ")) << lines[0];
    }
  }
}

}  // namespace
}  // namespace rocecoll
