// SPDX-License-Identifier: Apache-2.0
// What a link reports whose peer leaves.
#include <gtest/gtest.h>

#include <vector>

#include "switching/memory_world.h"

namespace rocecoll {
namespace {

SwitchingOptions WithoutFailover() {
  SwitchingOptions options = MemoryWorld::Options();
  options.failover = false;
  return options;
}

TEST(SwitchingLeaving, BeforeThePathIsProvedDeliversWhatWasAcceptedAlsoWithoutFailover) {
  MemoryWorld world(2, 1, {}, WithoutFailover());
  const auto [leaving, staying] = world.connect(0, 1);
  ASSERT_TRUE(leaving->send_frame(Text("last words")));
  leaving->close({});
  ASSERT_TRUE(world.run([&, staying = staying] { return world.is_down(staying); }));
  EXPECT_EQ(world.record(staying).frames, std::vector<Bytes>{Text("last words")});
  EXPECT_EQ(world.record(staying).down.front().code(), StatusCode::kPeerLeft);
}

TEST(SwitchingLeaving, AmidAnOperationIsNoFailureOfThePathWithoutFailover) {
  MemoryWorld world(2, 1, {}, WithoutFailover());
  const auto [leaving, staying] = world.connect(0, 1);
  ASSERT_TRUE(
      world.run([&] { return world.carries(Between(0, 1)) && world.carries(Between(1, 0)); }));
  Bytes target(100'000);
  leaving->expose({target.data(), target.size(), kUnregistered}, 1);
  leaving->close({});
  ASSERT_TRUE(world.run([&, staying = staying] { return world.is_down(staying); }));
  EXPECT_EQ(world.record(staying).down.front().code(), StatusCode::kPeerLeft);
}

}  // namespace
}  // namespace rocecoll
