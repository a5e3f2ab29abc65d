// SPDX-License-Identifier: Apache-2.0
// Element types and reduce operations. The numbers go over the wire in the fingerprint.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace rocecoll {

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
inline constexpr int kDataTypes = 21;

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
inline constexpr int kReduceOps = 9;

size_t SizeOf(DataType type);
std::string_view ToString(DataType type);  // torch's names: "float32", "bfloat16", ...
std::string_view ToString(ReduceOp op);    // "SUM", "PREMUL_SUM", ...

}  // namespace rocecoll
