// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/time.h"

namespace rocecoll {

// An item's position in a DeadlineHeap.
struct DeadlineHook {
  static constexpr size_t kOut = SIZE_MAX;
  Instant at = kNever;
  size_t position = kOut;
};

// Tells which item is due first, for deadlines that move often: a binary heap whose items know
// their positions.
template <typename T, DeadlineHook T::* Hook>
class DeadlineHeap {
 public:
  bool empty() const { return items_.empty(); }
  T* first() const { return items_.empty() ? nullptr : items_.front(); }
  Instant next() const { return items_.empty() ? kNever : At(*items_.front()); }

  // Inserts the item, moves it, or, with kNever, removes it.
  void set(T& item, Instant at) {
    DeadlineHook& hook = item.*Hook;
    if (at == kNever) {
      erase(item);
    } else if (hook.position == DeadlineHook::kOut) {
      hook = {at, items_.size()};
      items_.push_back(&item);
      rise(hook.position);
    } else if (hook.at != at) {
      hook.at = at;
      sink(rise(hook.position));
    }
  }
  // Does nothing for an item that is not in the heap.
  void erase(T& item) {
    const size_t position = (item.*Hook).position;
    if (position == DeadlineHook::kOut) return;
    ROCECOLL_CHECK(items_[position] == &item);
    item.*Hook = {};
    T* last = items_.back();
    items_.pop_back();
    if (last == &item) return;
    place(position, last);
    sink(rise(position));
  }

 private:
  static Instant At(const T& item) { return (item.*Hook).at; }
  void place(size_t position, T* item) {
    items_[position] = item;
    (item->*Hook).position = position;
  }
  size_t rise(size_t position) {
    T* const item = items_[position];
    while (position > 0) {
      const size_t parent = (position - 1) / 2;
      if (At(*items_[parent]) <= At(*item)) break;
      place(position, items_[parent]);
      position = parent;
    }
    place(position, item);
    return position;
  }
  void sink(size_t position) {
    T* const item = items_[position];
    while (2 * position + 1 < items_.size()) {
      size_t child = 2 * position + 1;
      if (child + 1 < items_.size() && At(*items_[child + 1]) < At(*items_[child])) ++child;
      if (At(*item) <= At(*items_[child])) break;
      place(position, items_[child]);
      position = child;
    }
    place(position, item);
  }

  std::vector<T*> items_;
};

}  // namespace rocecoll
