// SPDX-License-Identifier: Apache-2.0
// How the elements of each type are stored, and how they are computed with.
//
// Floating-point formats of 8 and 16 bits have exact decoding to float32, and encoding from float32
// to nearest, ties to even. NaN, infinity and overflow follow torch's conversions, except that a
// NaN is always the same NaN, without sign or payload.
//
// Everything has internal linkage: each instruction set compiles its own copy (reduce_loops.h), and
// nothing here calls a function of the standard library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "collectives/data_type.h"

namespace rocecoll {
namespace {

// A type in which values are computed as they are stored.
template <typename T>
struct Native {
  using Storage = T;
  using Value = T;

  static T Decode(T stored) { return stored; }
  static T Encode(T value) {
    if constexpr (std::is_floating_point_v<T>) {
      return value != value ? static_cast<T>(__builtin_nan("")) : value;
    } else {
      return value;
    }
  }
};

struct Bool {
  using Storage = uint8_t;
  using Value = uint8_t;

  static Value Decode(Storage stored) { return stored != 0; }
  static Storage Encode(Value value) { return value; }
};

enum class Specials {
  kIeee,          // infinities and NaNs in the top binade; overflow is infinity
  kSaturating,    // no infinity, NaN is all ones; overflow and infinity become the largest number
  kUnsignedZero,  // "fnuz": no infinity, no -0, whose code is the only NaN; overflow is NaN
};

inline constexpr uint32_t kFloatInfinity = 0x7f800000;
inline constexpr uint32_t kFloatNan = 0x7fc00000;

template <typename StorageType, int kExponentBits, int kMantissaBits, int kBias, Specials kSpecials,
          uint32_t kNan>
struct SmallFloat {
  using Storage = StorageType;
  using Value = float;

  static constexpr Value Decode(Storage code) {
    const uint32_t sign = (static_cast<uint32_t>(code) >> kMagnitudeBits) << 31;
    const uint32_t magnitude = code & kMagnitudeMask;
    const uint32_t normal = (magnitude << kShift) + (static_cast<uint32_t>(127 - kBias) << 23);
    const float subnormal = static_cast<float>(static_cast<int32_t>(magnitude)) *
                            __builtin_bit_cast(float, kSubnormalUlp);
    uint32_t bits =
        magnitude < (1u << kMantissaBits) ? __builtin_bit_cast(uint32_t, subnormal) : normal;
    if constexpr (kSpecials == Specials::kUnsignedZero) {
      return __builtin_bit_cast(float, code == kNan ? kFloatNan : bits | sign);
    }
    const bool infinite = kSpecials == Specials::kIeee && magnitude == kMaxFinite + 1;
    bits = magnitude > kMaxFinite ? (infinite ? kFloatInfinity : kFloatNan) : bits;
    return __builtin_bit_cast(float, bits | sign);
  }

  static constexpr Storage Encode(Value value) {
    const uint32_t bits = __builtin_bit_cast(uint32_t, value);
    const uint32_t magnitude = bits & 0x7fffffff;
    const uint32_t sign = (bits >> 31) << kMagnitudeBits;
    const uint32_t odd = (magnitude >> kShift) & 1;
    const uint32_t half = (1u << (kShift - 1)) - 1;
    const uint32_t normal =
        (magnitude - (static_cast<uint32_t>(127 - kBias) << 23) + half + odd) >> kShift;
    // Adding a number whose last place is the format's smallest step rounds the sum to that step.
    const float shifted =
        __builtin_bit_cast(float, magnitude) + __builtin_bit_cast(float, kSubnormalMagic);
    const uint32_t subnormal = __builtin_bit_cast(uint32_t, shifted) - kSubnormalMagic;
    uint32_t code = magnitude < kMinNormal ? subnormal : normal;
    code = code > kMaxFinite ? kOverflow : code;
    const bool keep_sign = kSpecials != Specials::kUnsignedZero || code != 0;
    code |= keep_sign ? sign : 0;
    return static_cast<Storage>(magnitude > kFloatInfinity ? kNan : code);
  }

 private:
  static constexpr int kMagnitudeBits = kExponentBits + kMantissaBits;
  static constexpr int kShift = 23 - kMantissaBits;
  static constexpr uint32_t kMagnitudeMask = (1u << kMagnitudeBits) - 1;
  static constexpr uint32_t kMinNormal = static_cast<uint32_t>(128 - kBias) << 23;
  static constexpr uint32_t kSubnormalUlp = static_cast<uint32_t>(128 - kBias - kMantissaBits)
                                            << 23;
  static constexpr uint32_t kSubnormalMagic = kSubnormalUlp + (23u << 23);
  static constexpr uint32_t kMaxFinite =
      kSpecials == Specials::kIeee ? (((1u << kExponentBits) - 1) << kMantissaBits) - 1
                                   : kMagnitudeMask - (kSpecials == Specials::kSaturating ? 1 : 0);
  static constexpr uint32_t kOverflow =
      kSpecials == Specials::kSaturating ? kMaxFinite : kMaxFinite + 1;
};

using Float16 = SmallFloat<uint16_t, 5, 10, 15, Specials::kIeee, 0x7e00>;
using Float8E4m3fn = SmallFloat<uint8_t, 4, 3, 7, Specials::kSaturating, 0x7f>;
using Float8E4m3fnuz = SmallFloat<uint8_t, 4, 3, 8, Specials::kUnsignedZero, 0x80>;
using Float8E5m2 = SmallFloat<uint8_t, 5, 2, 15, Specials::kIeee, 0x7f>;
using Float8E5m2fnuz = SmallFloat<uint8_t, 5, 2, 16, Specials::kUnsignedZero, 0x80>;

// A power of two, from 2^-127 to 2^127, or NaN: no sign, no zero, no infinity. Encoding drops the
// sign of the value.
struct Float8E8m0fnu {
  using Storage = uint8_t;
  using Value = float;

  static constexpr Value Decode(Storage code) {
    const uint32_t number = code == 0 ? 0x00400000u : static_cast<uint32_t>(code) << 23;
    return __builtin_bit_cast(float, code == 0xff ? kFloatNan : number);
  }
  static constexpr Storage Encode(Value value) {
    const uint32_t magnitude = __builtin_bit_cast(uint32_t, value) & 0x7fffffff;
    const uint32_t exponent = magnitude >> 23;
    // The middle is 1.5, which goes up to 2. Below 2^-126 everything but 2^-127 itself goes up, as
    // in torch.
    const uint32_t fraction = (magnitude & 0x007fffff) + (exponent > 0 ? 1 : 0);
    const uint32_t code = exponent + (fraction > 0x00400000 ? 1 : 0);
    return static_cast<Storage>(code > 0xff ? 0xff : code);
  }
};

struct Bfloat16 {
  using Storage = uint16_t;
  using Value = float;

  static constexpr Value Decode(Storage code) {
    return __builtin_bit_cast(float, static_cast<uint32_t>(code) << 16);
  }
  static constexpr Storage Encode(Value value) {
    const uint32_t bits = __builtin_bit_cast(uint32_t, value);
    const uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    return static_cast<Storage>((bits & 0x7fffffff) > kFloatInfinity ? 0x7fc0 : rounded);
  }
};

// The format of a type's elements or, for a complex type, of their two parts.
template <DataType kDataType, typename FormatOfParts>
struct Row {
  using Format = FormatOfParts;
  static constexpr DataType kType = kDataType;
  static constexpr NumberKind kKind = KindOf(kType);
  static_assert(sizeof(typename Format::Storage) * (kKind == NumberKind::kComplex ? 2 : 1) ==
                SizeOf(kType));
  static_assert(kKind != NumberKind::kSigned || std::is_signed_v<typename Format::Value>);
  static_assert(kKind != NumberKind::kUnsigned || std::is_unsigned_v<typename Format::Value>);
};

template <typename... Rows>
struct FormatTable {
  static_assert(HasRowForEach(std::array{RowOf(kDataTypeTraits, Rows::kType)...},
                              &DataTypeTraits::type));
};

// clang-format off
using Formats = FormatTable<
    Row<DataType::kBool,           Bool>,
    Row<DataType::kUint8,          Native<uint8_t>>,
    Row<DataType::kInt8,           Native<int8_t>>,
    Row<DataType::kUint16,         Native<uint16_t>>,
    Row<DataType::kInt16,          Native<int16_t>>,
    Row<DataType::kUint32,         Native<uint32_t>>,
    Row<DataType::kInt32,          Native<int32_t>>,
    Row<DataType::kUint64,         Native<uint64_t>>,
    Row<DataType::kInt64,          Native<int64_t>>,
    Row<DataType::kFloat16,        Float16>,
    Row<DataType::kBfloat16,       Bfloat16>,
    Row<DataType::kFloat32,        Native<float>>,
    Row<DataType::kFloat64,        Native<double>>,
    Row<DataType::kComplex32,      Float16>,
    Row<DataType::kComplex64,      Native<float>>,
    Row<DataType::kComplex128,     Native<double>>,
    Row<DataType::kFloat8E4m3fn,   Float8E4m3fn>,
    Row<DataType::kFloat8E4m3fnuz, Float8E4m3fnuz>,
    Row<DataType::kFloat8E5m2,     Float8E5m2>,
    Row<DataType::kFloat8E5m2fnuz, Float8E5m2fnuz>,
    Row<DataType::kFloat8E8m0fnu,  Float8E8m0fnu>>;
// clang-format on

}  // namespace
}  // namespace rocecoll
