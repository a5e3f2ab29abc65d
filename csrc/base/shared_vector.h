// SPDX-License-Identifier: Apache-2.0
// An immutable vector whose copies share their memory, for tables with an entry for each of many
// ranks.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace rocecoll {

template <typename T>
class SharedVector {
 public:
  SharedVector() = default;
  SharedVector(std::vector<T> items)
      : items_(std::make_shared<const std::vector<T>>(std::move(items))) {}
  SharedVector(std::initializer_list<T> items) : SharedVector(std::vector<T>(items)) {}

  bool empty() const { return size() == 0; }
  size_t size() const { return items_ == nullptr ? 0 : items_->size(); }
  const T& operator[](size_t index) const { return (*items_)[index]; }
  std::span<const T> items() const {
    return items_ == nullptr ? std::span<const T>() : std::span<const T>(*items_);
  }

 private:
  std::shared_ptr<const std::vector<T>> items_;
};

}  // namespace rocecoll
