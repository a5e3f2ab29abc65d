// SPDX-License-Identifier: Apache-2.0
// Whether a link goes back to the fast path once it has failed: only if `returns` says so.
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "switching/memory_world.h"

namespace rocecoll {
namespace {

// The end that fails offers nothing any more. Its peer learns that from an OFFER, while the fast
// path still carries for it, and a path through memory drains at once.
TEST(SwitchingReturn, DoesNotHappenWithoutReturnsThoughAnOfferEndsAPathThatDrainsAtOnce) {
  SwitchingOptions options = MemoryWorld::Options();
  options.max_recoveries = 0;
  ASSERT_FALSE(options.returns);
  MemoryWorld world(2, 1, {}, options);
  const auto [here, there] = world.connect(0, 1);
  const auto carried = [&] { return world.carries(Between(0, 1)) || world.carries(Between(1, 0)); };
  ASSERT_TRUE(
      world.run([&] { return world.carries(Between(0, 1)) && world.carries(Between(1, 0)); }));

  world.fabric().ends.begin()->second->break_end();
  ASSERT_TRUE(world.run([&] { return !carried(); }));
  EXPECT_FALSE(world.run(carried, std::chrono::seconds(1)));
  ASSERT_TRUE(here->send_frame(Text("frame")));
  ASSERT_TRUE(there->send_frame(Text("frame")));
  EXPECT_TRUE(world.run([&, here = here, there = there] {
    return world.record(here).frames.size() + world.record(there).frames.size() == 2;
  }));
}

}  // namespace
}  // namespace rocecoll
