// SPDX-License-Identifier: Apache-2.0
#include "transport/sim/event_queue.h"

#include <gtest/gtest.h>

#include <vector>

namespace rocecoll {
namespace {

using std::chrono::microseconds;

TEST(EventQueue, RunsInOrderOfTimeThenOfAddition) {
  EventQueue queue;
  std::vector<int> order;
  queue.schedule(queue.now() + microseconds(20), [&] { order.push_back(3); });
  queue.schedule(queue.now() + microseconds(10), [&] { order.push_back(1); });
  queue.schedule(queue.now() + microseconds(10), [&] { order.push_back(2); });
  EXPECT_EQ(queue.next_time(), Instant(microseconds(10)));
  while (queue.run_next()) {
  }
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(queue.now(), Instant(microseconds(20)));
  EXPECT_EQ(queue.next_time(), kNever);
}

TEST(EventQueue, RunUntilIncludesItsInstantAndMovesTime) {
  EventQueue queue;
  int ran = 0;
  queue.schedule(queue.now() + microseconds(5), [&] { ++ran; });
  queue.schedule(queue.now() + microseconds(6), [&] { ++ran; });
  queue.run_until(Instant(microseconds(5)));
  EXPECT_EQ(ran, 1);
  queue.run_until(Instant(microseconds(50)));
  EXPECT_EQ(ran, 2);
  EXPECT_EQ(queue.now(), Instant(microseconds(50)));
}

TEST(EventQueue, AnActionMayAddMoreAndThePastIsNow) {
  EventQueue queue;
  std::vector<Instant> at;
  queue.schedule(queue.now() + microseconds(7), [&] {
    queue.schedule(Instant{}, [&] { at.push_back(queue.now()); });
    queue.schedule(queue.now() + microseconds(1), [&] { at.push_back(queue.now()); });
  });
  queue.run_until(Instant(microseconds(100)));
  EXPECT_EQ(at, (std::vector<Instant>{Instant(microseconds(7)), Instant(microseconds(8))}));
  EXPECT_FALSE(queue.run_next());
}

}  // namespace
}  // namespace rocecoll
