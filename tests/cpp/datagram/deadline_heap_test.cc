// SPDX-License-Identifier: Apache-2.0
#include "transport/datagram/deadline_heap.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/random.h"

namespace rocecoll {
namespace {

struct Item {
  DeadlineHook hook;
};
using Heap = DeadlineHeap<Item, &Item::hook>;

TEST(DeadlineHeap, AgreesWithAPlainSearchWhateverIsDoneToIt) {
  Random random(1);
  std::vector<Item> items(60);
  std::vector<Instant> model(items.size(), kNever);
  Heap heap;
  for (int step = 0; step < 20000; ++step) {
    const size_t i = random.below(items.size());
    if (random.chance(0.3)) {
      heap.erase(items[i]);
      model[i] = kNever;
    } else {
      model[i] = random.chance(0.1) ? kNever : Instant(Duration(random.below(500)));
      heap.set(items[i], model[i]);
    }
    const Instant earliest = *std::min_element(model.begin(), model.end());
    ASSERT_EQ(heap.next(), earliest);
    ASSERT_EQ(heap.empty(), earliest == kNever);
    if (!heap.empty()) {
      ASSERT_EQ(model[static_cast<size_t>(heap.first() - items.data())], earliest);
    }
  }
}

TEST(DeadlineHeap, DrainsInOrder) {
  Random random(2);
  std::vector<Item> items(300);
  Heap heap;
  for (Item& item : items) heap.set(item, Instant(Duration(random.below(1000))));
  Instant last{};
  size_t count = 0;
  for (; Item* first = heap.first(); ++count) {
    ASSERT_GE(first->hook.at, last);
    last = first->hook.at;
    heap.erase(*first);
    heap.erase(*first);  // already removed: nothing happens
  }
  EXPECT_EQ(count, items.size());
}

}  // namespace
}  // namespace rocecoll
