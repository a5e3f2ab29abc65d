// SPDX-License-Identifier: Apache-2.0
// The tables of element types and reduce operations. How a type is stored and computed with is in
// number_formats.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/enum_table.h"

namespace rocecoll {

// The numbers are part of the fingerprint on the wire.
enum class DataType : uint8_t {
  kBool,
  kUint8,
  kInt8,
  kUint16,
  kInt16,
  kUint32,
  kInt32,
  kUint64,
  kInt64,
  kFloat16,
  kBfloat16,
  kFloat32,
  kFloat64,
  kComplex32,
  kComplex64,
  kComplex128,
  kFloat8E4m3fn,
  kFloat8E4m3fnuz,
  kFloat8E5m2,
  kFloat8E5m2fnuz,
  kFloat8E8m0fnu,
};

enum class NumberKind : uint8_t { kBoolean, kUnsigned, kSigned, kFloat, kComplex };

struct DataTypeTraits {
  DataType type;
  NumberKind kind;
  uint8_t bytes;          // size of an element
  std::string_view name;  // the name in torch
};

inline constexpr auto kDataTypeTraits = [] {
  using enum DataType;
  using enum NumberKind;
  // clang-format off
  return std::to_array<DataTypeTraits>({
    {kBool,           kBoolean,  1, "bool"},
    {kUint8,          kUnsigned, 1, "uint8"},
    {kInt8,           kSigned,   1, "int8"},
    {kUint16,         kUnsigned, 2, "uint16"},
    {kInt16,          kSigned,   2, "int16"},
    {kUint32,         kUnsigned, 4, "uint32"},
    {kInt32,          kSigned,   4, "int32"},
    {kUint64,         kUnsigned, 8, "uint64"},
    {kInt64,          kSigned,   8, "int64"},
    {kFloat16,        kFloat,    2, "float16"},
    {kBfloat16,       kFloat,    2, "bfloat16"},
    {kFloat32,        kFloat,    4, "float32"},
    {kFloat64,        kFloat,    8, "float64"},
    {kComplex32,      kComplex,  4, "complex32"},
    {kComplex64,      kComplex,  8, "complex64"},
    {kComplex128,     kComplex, 16, "complex128"},
    {kFloat8E4m3fn,   kFloat,    1, "float8_e4m3fn"},
    {kFloat8E4m3fnuz, kFloat,    1, "float8_e4m3fnuz"},
    {kFloat8E5m2,     kFloat,    1, "float8_e5m2"},
    {kFloat8E5m2fnuz, kFloat,    1, "float8_e5m2fnuz"},
    {kFloat8E8m0fnu,  kFloat,    1, "float8_e8m0fnu"},
  });
  // clang-format on
}();
static_assert(HasRowForEach(kDataTypeTraits, &DataTypeTraits::type));
inline constexpr int kDataTypes = static_cast<int>(kDataTypeTraits.size());

// The numbers are part of the fingerprint on the wire.
enum class ReduceOp : uint8_t {
  kSum,
  kAvg,
  kProduct,
  kMin,
  kMax,
  kBand,
  kBor,
  kBxor,
  kPremulSum,
};

struct ReduceOpTraits {
  ReduceOp op;
  std::string_view name;  // the name in torch
};

inline constexpr auto kReduceOpTraits = std::to_array<ReduceOpTraits>({
    {ReduceOp::kSum, "SUM"},
    {ReduceOp::kAvg, "AVG"},
    {ReduceOp::kProduct, "PRODUCT"},
    {ReduceOp::kMin, "MIN"},
    {ReduceOp::kMax, "MAX"},
    {ReduceOp::kBand, "BAND"},
    {ReduceOp::kBor, "BOR"},
    {ReduceOp::kBxor, "BXOR"},
    {ReduceOp::kPremulSum, "PREMUL_SUM"},
});
static_assert(HasRowForEach(kReduceOpTraits, &ReduceOpTraits::op));
inline constexpr int kReduceOps = static_cast<int>(kReduceOpTraits.size());

constexpr size_t SizeOf(DataType type) { return RowOf(kDataTypeTraits, type).bytes; }
constexpr NumberKind KindOf(DataType type) { return RowOf(kDataTypeTraits, type).kind; }
constexpr std::string_view ToString(DataType type) { return RowOf(kDataTypeTraits, type).name; }
constexpr std::string_view ToString(ReduceOp op) { return RowOf(kReduceOpTraits, op).name; }

}  // namespace rocecoll
