// SPDX-License-Identifier: Apache-2.0
// The operators of the reductions, on a scalar or on a GNU vector of float. They have internal
// linkage, like number_formats.h.
#pragma once

#include <cstdint>
#include <type_traits>

namespace rocecoll {
namespace {

template <typename T>
struct BitsOf;
template <>
struct BitsOf<float> {
  using Type = uint32_t;
};
template <>
struct BitsOf<double> {
  using Type = uint64_t;
};

struct SumOp {
  template <typename T>
  static T Apply(T a, T b) {
    return static_cast<T>(a + b);
  }
};

struct ProductOp {
  template <typename T>
  static T Apply(T a, T b) {
    if constexpr (std::is_integral_v<T> && sizeof(T) < sizeof(unsigned)) {
      return static_cast<T>(1u * a * b);  // uint16_t would be promoted to int, which can overflow
    } else {
      return a * b;
    }
  }
};

// For equal floating operands, the or of their bits is the operand, and it is -0 for two zeros of
// different sign. If one operand is NaN, the or is what remains, and it is a NaN: the result does
// not depend on any order.
struct MinOp {
  template <typename T>
  static T Apply(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      return b < a ? b : a;
    } else {
      using Bits = typename BitsOf<T>::Type;
      const T either =
          __builtin_bit_cast(T, __builtin_bit_cast(Bits, a) | __builtin_bit_cast(Bits, b));
      const T not_less = b < a ? b : either;
      return a < b ? a : not_less;
    }
  }
};

struct MaxOp {
  template <typename T>
  static T Apply(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      return a < b ? b : a;
    } else {
      return -MinOp::Apply(-a, -b);
    }
  }
};

struct BandOp {
  template <typename T>
  static T Apply(T a, T b) {
    return static_cast<T>(a & b);
  }
};

struct BorOp {
  template <typename T>
  static T Apply(T a, T b) {
    return static_cast<T>(a | b);
  }
};

struct BxorOp {
  template <typename T>
  static T Apply(T a, T b) {
    return static_cast<T>(a ^ b);
  }
};

}  // namespace
}  // namespace rocecoll
