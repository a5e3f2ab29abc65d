// SPDX-License-Identifier: Apache-2.0
// Slow, plain arithmetic against which the kernels are compared. It is written from the definitions
// of the formats and shares nothing with the kernels: small floats decode by ldexp, and encode by a
// search for the nearest value.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <vector>

#include "collectives/data_type.h"

namespace rocecoll::reference {

struct Format {
  int bits;
  int mantissa_bits;
  int bias;
  uint32_t nan;       // the NaN that results have
  uint32_t max_code;  // the largest finite magnitude
  uint32_t overflow;  // what larger magnitudes become
  bool has_sign;
  bool has_negative_zero;
};

inline const Format& FormatOf(DataType type) {
  static const std::map<DataType, Format> formats = {
      {DataType::kFloat16, {16, 10, 15, 0x7e00, 0x7bff, 0x7c00, true, true}},
      {DataType::kComplex32, {16, 10, 15, 0x7e00, 0x7bff, 0x7c00, true, true}},
      {DataType::kBfloat16, {16, 7, 127, 0x7fc0, 0x7f7f, 0x7f80, true, true}},
      {DataType::kFloat8E4m3fn, {8, 3, 7, 0x7f, 0x7e, 0x7e, true, true}},
      {DataType::kFloat8E4m3fnuz, {8, 3, 8, 0x80, 0x7f, 0x80, true, false}},
      {DataType::kFloat8E5m2, {8, 2, 15, 0x7f, 0x7b, 0x7c, true, true}},
      {DataType::kFloat8E5m2fnuz, {8, 2, 16, 0x80, 0x7f, 0x80, true, false}},
      {DataType::kFloat8E8m0fnu, {8, 0, 127, 0xff, 0xfe, 0xff, false, false}},
  };
  return formats.at(type);
}

// The value of a code without its sign bit. The first code beyond the largest finite one has the
// value that it would have if the exponents continued.
inline double Magnitude(const Format& format, uint32_t code) {
  if (!format.has_sign) return std::ldexp(1.0, static_cast<int>(code) - format.bias);
  const int exponent = static_cast<int>(code >> format.mantissa_bits);
  const uint32_t fraction = code & ((1u << format.mantissa_bits) - 1);
  const uint32_t implied = exponent == 0 ? 0 : 1u << format.mantissa_bits;
  return std::ldexp(fraction + implied, std::max(exponent, 1) - format.bias - format.mantissa_bits);
}

inline float Decode(DataType type, uint32_t code) {
  const Format& format = FormatOf(type);
  const uint32_t sign_bit = format.has_sign ? 1u << (format.bits - 1) : 0;
  const uint32_t magnitude = code & ~sign_bit;
  float value;
  if (!format.has_negative_zero && code == format.nan) {
    value = std::numeric_limits<float>::quiet_NaN();
  } else if (magnitude <= format.max_code) {
    value = static_cast<float>(Magnitude(format, magnitude));
  } else if (magnitude == format.overflow) {
    value = std::numeric_limits<float>::infinity();
  } else {
    value = std::numeric_limits<float>::quiet_NaN();
  }
  return (code & sign_bit) != 0 ? -value : value;
}

inline uint32_t Encode(DataType type, float value) {
  const Format& format = FormatOf(type);
  if (std::isnan(value)) return format.nan;
  static std::map<DataType, std::vector<double>> tables;
  std::vector<double>& values = tables[type];
  if (values.empty()) {
    for (uint32_t code = 0; code <= format.max_code + 1; ++code) {
      values.push_back(Magnitude(format, code));
    }
  }
  const double magnitude = std::fabs(value);
  uint32_t code = format.max_code + 1;
  if (magnitude < values.back()) {
    const auto above = std::upper_bound(values.begin(), values.end(), magnitude);
    const uint32_t high = static_cast<uint32_t>(above - values.begin());
    const uint32_t low = high == 0 ? 0 : high - 1;
    // Only a power of two has the odd significand 1, so its middle goes up. Below 2^-126 torch
    // rounds everything but 2^-127 itself up.
    const bool bottom = !format.has_sign && low == 0;
    const double middle = bottom ? values[low] : (values[low] + values[high]) / 2;
    const bool low_is_even = format.has_sign ? low % 2 == 0 : bottom;
    code = magnitude > middle || (magnitude == middle && !low_is_even) ? high : low;
  }
  if (code > format.max_code || std::isinf(value)) code = format.overflow;
  const bool negative = std::signbit(value) && format.has_sign;
  if (!negative || (code == 0 && !format.has_negative_zero)) return code;
  return code | (1u << (format.bits - 1));
}

inline bool IsSmallFloat(DataType type) {
  return type == DataType::kFloat16 || type == DataType::kBfloat16 ||
         type >= DataType::kFloat8E4m3fn || type == DataType::kComplex32;
}
inline bool IsComplex(DataType type) {
  return type >= DataType::kComplex32 && type <= DataType::kComplex128;
}
// The type of the real part.
inline DataType PartOf(DataType type) {
  if (type == DataType::kComplex32) return DataType::kFloat16;
  if (type == DataType::kComplex64) return DataType::kFloat32;
  if (type == DataType::kComplex128) return DataType::kFloat64;
  return type;
}

template <typename T>
T Get(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

// Reads a floating part as a double (exact for all types), and writes it back: for all but float64
// it is first rounded to float32, as the contract says.
inline double GetFloat(DataType part, const std::byte* from) {
  if (part == DataType::kFloat64) return Get<double>(from);
  if (part == DataType::kFloat32) return Get<float>(from);
  return Decode(part, SizeOf(part) == 1 ? Get<uint8_t>(from) : Get<uint16_t>(from));
}

inline void PutFloat(DataType part, std::byte* to, double value) {
  if (part == DataType::kFloat64) {
    const uint64_t nan = 0x7ff8000000000000;
    std::memcpy(to, std::isnan(value) ? static_cast<const void*>(&nan) : &value, 8);
  } else if (part == DataType::kFloat32) {
    const uint32_t nan = 0x7fc00000;
    const float rounded = static_cast<float>(value);
    std::memcpy(to, std::isnan(value) ? static_cast<const void*>(&nan) : &rounded, 4);
  } else {
    const uint32_t code = Encode(part, static_cast<float>(value));
    std::memcpy(to, &code, SizeOf(part));  // little endian
  }
}

// Rounding a sum or product of two float32 values to double and then to float32 is the same as
// rounding once (53 >= 2 * 24 + 2; Figueroa 1995).
inline double ReduceFloat(ReduceOp op, double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<double>::quiet_NaN();
  switch (op) {
    case ReduceOp::kProduct:
      return a * b;
    case ReduceOp::kMin:
      return a < b || (a == b && std::signbit(a)) ? a : b;
    case ReduceOp::kMax:
      return a > b || (a == b && !std::signbit(a)) ? a : b;
    default:
      return a + b;
  }
}

inline double Round(DataType part, double value) {
  return part == DataType::kFloat64 ? value : static_cast<float>(value);
}

inline void ReduceComplexProduct(DataType part, const std::byte* a, const std::byte* b,
                                 std::byte* out) {
  const size_t size = SizeOf(part);
  const double a_re = GetFloat(part, a), a_im = GetFloat(part, a + size);
  const double b_re = GetFloat(part, b), b_im = GetFloat(part, b + size);
  const volatile double re_re = Round(part, a_re * b_re), im_im = Round(part, a_im * b_im);
  const volatile double re_im = Round(part, a_re * b_im), im_re = Round(part, a_im * b_re);
  PutFloat(part, out, re_re - im_im);
  PutFloat(part, out + size, re_im + im_re);
}

template <typename T>
T ReduceInteger(ReduceOp op, T a, T b) {
  using Wide = unsigned __int128;
  switch (op) {
    case ReduceOp::kProduct:
      return static_cast<T>(static_cast<Wide>(a) * static_cast<Wide>(b));
    case ReduceOp::kMin:
      return std::min(a, b);
    case ReduceOp::kMax:
      return std::max(a, b);
    case ReduceOp::kBand:
      return a & b;
    case ReduceOp::kBor:
      return a | b;
    case ReduceOp::kBxor:
      return a ^ b;
    default:
      return static_cast<T>(static_cast<Wide>(a) + static_cast<Wide>(b));
  }
}

inline bool ReduceBool(ReduceOp op, bool a, bool b) {
  if (op == ReduceOp::kBxor) return a != b;
  const bool both = op == ReduceOp::kProduct || op == ReduceOp::kMin || op == ReduceOp::kBand;
  return both ? a && b : a || b;
}

// Calls visit(T{}) with the integer type of `type`.
template <typename Visit>
void VisitInteger(DataType type, Visit visit) {
  switch (type) {
    case DataType::kUint8:
      return visit(uint8_t{});
    case DataType::kInt8:
      return visit(int8_t{});
    case DataType::kUint16:
      return visit(uint16_t{});
    case DataType::kInt16:
      return visit(int16_t{});
    case DataType::kUint32:
      return visit(uint32_t{});
    case DataType::kInt32:
      return visit(int32_t{});
    case DataType::kUint64:
      return visit(uint64_t{});
    default:
      return visit(int64_t{});
  }
}

// Reduces one element.
inline void Reduce(DataType type, ReduceOp op, const std::byte* a, const std::byte* b,
                   std::byte* out) {
  if (type == DataType::kBool) {
    *out = std::byte{ReduceBool(op, *a != std::byte{0}, *b != std::byte{0})};
  } else if (type <= DataType::kInt64) {
    VisitInteger(type, [&](auto tag) {
      using T = decltype(tag);
      const T result = ReduceInteger<T>(op, Get<T>(a), Get<T>(b));
      std::memcpy(out, &result, sizeof(T));
    });
  } else if (IsComplex(type) && op == ReduceOp::kProduct) {
    ReduceComplexProduct(PartOf(type), a, b, out);
  } else {
    const DataType part = PartOf(type);
    for (size_t at = 0; at < SizeOf(type); at += SizeOf(part)) {
      PutFloat(part, out + at, ReduceFloat(op, GetFloat(part, a + at), GetFloat(part, b + at)));
    }
  }
}

}  // namespace rocecoll::reference
