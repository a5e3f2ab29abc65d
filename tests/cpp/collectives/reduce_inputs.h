// SPDX-License-Identifier: Apache-2.0
// Operands for tests of the reductions: random bits, everyday numbers, and special values.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "base/random.h"
#include "collectives/data_type.h"
#include "collectives/reduce_reference.h"

namespace rocecoll::reference {

inline std::vector<DataType> AllTypes() {
  std::vector<DataType> types;
  for (int i = 0; i < kDataTypes; ++i) types.push_back(static_cast<DataType>(i));
  return types;
}

inline std::vector<ReduceOp> AllOps() {
  std::vector<ReduceOp> ops;
  for (int i = 0; i < kReduceOps; ++i) ops.push_back(static_cast<ReduceOp>(i));
  return ops;
}

inline bool IsFloating(DataType type) { return type >= DataType::kFloat16; }

// Makes one part of an element: a quarter are special values, a quarter random bits, half everyday
// numbers.
inline void PutOperand(DataType part, Random& random, std::byte* to) {
  using Limits = std::numeric_limits<float>;
  constexpr std::array<double, 8> kSpecial = {0.0,           -0.0,
                                              1.0,           Limits::infinity(),
                                              Limits::max(), std::numeric_limits<double>::max(),
                                              Limits::min(), Limits::denorm_min()};
  const uint64_t bits = random.next();
  const uint64_t kind = random.below(4);
  std::memcpy(to, &bits, SizeOf(part));
  if (!IsFloating(part)) {
    if (part == DataType::kBool) *to = std::byte{static_cast<uint8_t>(kind == 0 ? bits : bits & 1)};
    if (part != DataType::kBool && kind == 1) std::memset(to, 0xff, SizeOf(part));
  } else if (kind == 0) {
    const double value = kSpecial[random.below(kSpecial.size())];
    PutFloat(part, to, random.chance(0.5) ? value : -value);
  } else if (kind != 1) {
    PutFloat(part, to, random.uniform() * 8 - 4);
  } else if (part == DataType::kFloat32 && random.chance(0.5)) {
    const uint32_t nan = static_cast<uint32_t>(bits) | 0x7f800001;  // any sign and payload
    std::memcpy(to, &nan, sizeof(nan));
  } else if (part == DataType::kFloat64 && random.chance(0.5)) {
    const uint64_t nan = bits | 0x7ff0000000000001;
    std::memcpy(to, &nan, sizeof(nan));
  }
}

inline std::vector<std::byte> MakeOperands(DataType type, size_t count, uint64_t seed) {
  const DataType part = PartOf(type);
  std::vector<std::byte> bytes(count * SizeOf(type));
  Random random(seed);
  for (size_t at = 0; at < bytes.size(); at += SizeOf(part)) {
    PutOperand(part, random, bytes.data() + at);
  }
  return bytes;
}

}  // namespace rocecoll::reference
