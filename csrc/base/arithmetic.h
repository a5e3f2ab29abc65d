// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <type_traits>

namespace rocecoll {

template <std::unsigned_integral T>
constexpr T CeilDivide(T number, std::type_identity_t<T> by) {
  return number / by + (number % by != 0 ? 1 : 0);
}

template <std::unsigned_integral T>
constexpr T RoundUp(T number, std::type_identity_t<T> unit) {
  return CeilDivide(number, unit) * unit;
}

}  // namespace rocecoll
