// SPDX-License-Identifier: Apache-2.0
// First-in first-out lists whose links are hooks inside the items: no allocation, and any item can
// be removed in constant time. An item is in at most one list per hook at a time.
#pragma once

#include "base/check.h"

namespace rocecoll {

template <typename T>
struct ListHook {
  T* previous = nullptr;
  T* next = nullptr;
  bool linked = false;
};

template <typename T, ListHook<T> T::* Hook>
class IntrusiveList {
 public:
  bool empty() const { return first_ == nullptr; }
  T* front() const { return first_; }
  static T* next(const T& item) { return (item.*Hook).next; }
  static bool linked(const T& item) { return (item.*Hook).linked; }

  void push_back(T& item) {
    ListHook<T>& hook = item.*Hook;
    ROCECOLL_CHECK(!hook.linked);
    hook = {last_, nullptr, true};
    (last_ == nullptr ? first_ : (last_->*Hook).next) = &item;
    last_ = &item;
  }
  // Does nothing for an item that is in no list. An item that is in a list must be in this one.
  void erase(T& item) {
    ListHook<T>& hook = item.*Hook;
    if (!hook.linked) return;
    (hook.previous == nullptr ? first_ : (hook.previous->*Hook).next) = hook.next;
    (hook.next == nullptr ? last_ : (hook.next->*Hook).previous) = hook.previous;
    hook = {};
  }

 private:
  T* first_ = nullptr;
  T* last_ = nullptr;
};

}  // namespace rocecoll
