// SPDX-License-Identifier: Apache-2.0
#include "transport/health_watch.h"

#include <gtest/gtest.h>

#include <chrono>

namespace rocecoll {
namespace {

using std::chrono::milliseconds;

TEST(HealthWatch, TellsChangesAndAsksNowAndThen) {
  const Instant start{milliseconds(5)};
  const Status down(StatusCode::kDevice, "port down");
  HealthWatch watch(milliseconds(10));
  EXPECT_TRUE(watch.health().ok());
  EXPECT_TRUE(watch.due(start));
  EXPECT_FALSE(watch.look(start, {}));  // it works, as before
  EXPECT_FALSE(watch.due(start + milliseconds(9)));
  EXPECT_TRUE(watch.due(start + milliseconds(10)));
  EXPECT_TRUE(watch.look(start + milliseconds(10), down));
  EXPECT_EQ(watch.health().message(), "port down");
  EXPECT_FALSE(watch.look(start + milliseconds(20), down));
  EXPECT_FALSE(watch.due(start + milliseconds(21)));
  watch.hurry();
  EXPECT_TRUE(watch.due(start + milliseconds(21)));
  EXPECT_TRUE(watch.look(start + milliseconds(21), {}));
}

}  // namespace
}  // namespace rocecoll
