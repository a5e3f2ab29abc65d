// SPDX-License-Identifier: Apache-2.0
#include "collectives/data_type.h"

#include "base/check.h"

namespace rocecoll {
namespace {

struct TypeFacts {
  std::string_view name;
  size_t size;
};

constexpr TypeFacts kTypeFacts[kDataTypes] = {
    {"bool", 1},           {"uint8", 1},           {"int8", 1},        {"uint16", 2},
    {"int16", 2},          {"uint32", 4},          {"int32", 4},       {"uint64", 8},
    {"int64", 8},          {"float16", 2},         {"bfloat16", 2},    {"float32", 4},
    {"float64", 8},        {"complex32", 4},       {"complex64", 8},   {"complex128", 16},
    {"float8_e4m3fn", 1},  {"float8_e4m3fnuz", 1}, {"float8_e5m2", 1}, {"float8_e5m2fnuz", 1},
    {"float8_e8m0fnu", 1},
};

constexpr std::string_view kOpNames[kReduceOps] = {
    "SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR", "PREMUL_SUM",
};

const TypeFacts& Facts(DataType type) {
  ROCECOLL_CHECK(static_cast<int>(type) < kDataTypes);
  return kTypeFacts[static_cast<int>(type)];
}

}  // namespace

size_t SizeOf(DataType type) { return Facts(type).size; }

std::string_view ToString(DataType type) { return Facts(type).name; }

std::string_view ToString(ReduceOp op) {
  ROCECOLL_CHECK(static_cast<int>(op) < kReduceOps);
  return kOpNames[static_cast<int>(op)];
}

}  // namespace rocecoll
