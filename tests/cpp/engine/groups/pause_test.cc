// SPDX-License-Identifier: Apache-2.0
// A process that did not run for a while: its operations get the time that they missed.
#include "engine/call.h"

namespace rocecoll {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Steps the engine every 100 ms, as its driver does at the latest while something is due.
void StepUntil(Cluster& cluster, Instant end) {
  while (cluster.now() < end) cluster.engine(0).step(cluster.now() + milliseconds(100));
}

TEST(Pause, IsNotCountedByDeadlines) {
  ClusterOptions options;
  options.timeout = seconds(5);
  Cluster cluster(options);
  Call call(cluster, {.elements = 100});
  call.submit(0);
  cluster.engine(0).step(cluster.now());
  StepUntil(cluster, cluster.now() + seconds(2));
  const auto status = [&] { return cluster.engine(0).group_status(cluster.group()); };
  ASSERT_TRUE(status().ok());
  cluster.engine(0).step(cluster.now() + seconds(60));
  EXPECT_TRUE(status().ok()) << status().message();
  StepUntil(cluster, cluster.now() + milliseconds(2500));
  EXPECT_TRUE(status().ok()) << status().message();
  StepUntil(cluster, cluster.now() + seconds(2));
  EXPECT_EQ(status().code(), StatusCode::kTimeout);
}

}  // namespace
}  // namespace rocecoll
