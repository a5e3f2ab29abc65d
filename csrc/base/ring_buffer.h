// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/check.h"

namespace rocecoll {

// A queue whose elements keep their index for life: the first element pushed has a given index,
// usually 0, and each further one the next index. Elements leave at the front. The buffer grows by
// doubling and keeps its memory, so that a steady state allocates nothing; the owner bounds its
// size.
template <typename T>
class RingBuffer {
 public:
  explicit RingBuffer(uint64_t first = 0) : begin_(first), end_(first) {}

  uint64_t begin_index() const { return begin_; }
  uint64_t end_index() const { return end_; }
  size_t size() const { return static_cast<size_t>(end_ - begin_); }
  bool empty() const { return begin_ == end_; }
  bool contains(uint64_t index) const { return index >= begin_ && index < end_; }

  T& operator[](uint64_t index) {
    ROCECOLL_CHECK(contains(index));
    return slots_[index & (slots_.size() - 1)];
  }
  const T& operator[](uint64_t index) const {
    ROCECOLL_CHECK(contains(index));
    return slots_[index & (slots_.size() - 1)];
  }
  T& front() { return (*this)[begin_]; }
  T& back() { return (*this)[end_ - 1]; }

  // The slot may still hold an earlier element, whose memory can be used again.
  T& push_slot() {
    if (size() == slots_.size()) grow();
    return slots_[end_++ & (slots_.size() - 1)];
  }
  void push_back(T value) { push_slot() = std::move(value); }
  void pop_front() {
    ROCECOLL_CHECK(!empty());
    ++begin_;
  }
  void clear() { begin_ = end_; }

 private:
  void grow() {
    std::vector<T> larger(slots_.empty() ? 8 : slots_.size() * 2);
    for (uint64_t i = begin_; i != end_; ++i) {
      larger[i & (larger.size() - 1)] = std::move(slots_[i & (slots_.size() - 1)]);
    }
    slots_ = std::move(larger);
  }

  std::vector<T> slots_;
  uint64_t begin_;
  uint64_t end_;
};

}  // namespace rocecoll
