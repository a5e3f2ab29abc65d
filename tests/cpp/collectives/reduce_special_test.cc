// SPDX-License-Identifier: Apache-2.0
// NaN, signed zeros, overflow, the thread's floating-point mode, scaling and division.
#include <gtest/gtest.h>

#include <bit>
#include <cfenv>
#include <cmath>
#include <limits>
#include <vector>

#include "collectives/reduce.h"
#include "collectives/reduce_inputs.h"
#include "collectives/reduce_kernels.h"
#include "collectives/reduce_reference.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace rocecoll {
namespace {

using reference::MakeOperands;
using Bytes = std::vector<std::byte>;

// Tests all pairs from `codes`, on every instruction set and in both orders.
template <typename T>
void ExpectPairsAgree(DataType type, const std::vector<T>& codes) {
  std::vector<T> left, right;
  for (T a : codes) {
    for (T b : codes) {
      left.push_back(a);
      right.push_back(b);
    }
  }
  for (ReduceOp op : {ReduceOp::kSum, ReduceOp::kProduct, ReduceOp::kMin, ReduceOp::kMax}) {
    std::vector<T> expected(left.size());
    Reduce(type, op, left.data(), right.data(), expected.data(), left.size());
    for (const KernelTable* table : UsableKernels()) {
      const ReduceKernel kernel = table->reduce[static_cast<int>(type)][static_cast<int>(op)];
      std::vector<T> forward(left.size()), backward(left.size());
      const auto* a = reinterpret_cast<const std::byte*>(left.data());
      const auto* b = reinterpret_cast<const std::byte*>(right.data());
      kernel(a, b, reinterpret_cast<std::byte*>(forward.data()), left.size());
      kernel(b, a, reinterpret_cast<std::byte*>(backward.data()), left.size());
      EXPECT_EQ(forward, expected) << table->name << " " << ToString(op);
      EXPECT_EQ(backward, expected) << table->name << " " << ToString(op) << ", operands swapped";
    }
  }
}

TEST(ReduceSpecialTest, NanPayloadsAndZerosAgreeEverywhere) {
  ExpectPairsAgree<uint32_t>(
      DataType::kFloat32,
      {0, 0x80000000, 0x3f800000, 0xbf800000, 0x7f800000, 0xff800000, 0x7f800001, 0xff812345,
       0x7fc00000, 0xffc00000, 0x7fffffff, 1, 0x80000001, 0x7f7fffff, 0xff7fffff});
  ExpectPairsAgree<uint64_t>(
      DataType::kFloat64,
      {0, 0x8000000000000000, 0x3ff0000000000000, 0x7ff0000000000000, 0xfff0000000000000,
       0x7ff0000000000001, 0xfff8000000012345, 0x7ff8000000000000, 0xffffffffffffffff, 1});
  ExpectPairsAgree<uint16_t>(DataType::kFloat16,
                             {0, 0x8000, 0x3c00, 0x7c00, 0xfc00, 0x7c01, 0xfe12, 0x7e00, 0xffff, 1,
                              0x8001, 0x7bff, 0xfbff, 0x03ff, 0x0400});
  ExpectPairsAgree<uint16_t>(DataType::kBfloat16,
                             {0, 0x8000, 0x3f80, 0x7f80, 0xff80, 0x7f81, 0xffc2, 0x7fc0, 0xffff, 1,
                              0x8001, 0x7f7f, 0xff7f});
}

TEST(ReduceSpecialTest, EveryPairOfEverySmallFloatAgrees) {
  std::vector<uint8_t> codes;
  for (int code = 0; code < 256; ++code) codes.push_back(static_cast<uint8_t>(code));
  for (DataType type : {DataType::kFloat8E4m3fn, DataType::kFloat8E4m3fnuz, DataType::kFloat8E5m2,
                        DataType::kFloat8E5m2fnuz, DataType::kFloat8E8m0fnu}) {
    ExpectPairsAgree<uint8_t>(type, codes);
  }
}

float ReduceOne(ReduceOp op, float a, float b) {
  float out = 0;
  Reduce(DataType::kFloat32, op, &a, &b, &out, 1);
  return out;
}

TEST(ReduceSpecialTest, ZerosNansAndInfinities) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(std::signbit(ReduceOne(ReduceOp::kMin, 0.0f, -0.0f)));
  EXPECT_TRUE(std::signbit(ReduceOne(ReduceOp::kMin, -0.0f, 0.0f)));
  EXPECT_FALSE(std::signbit(ReduceOne(ReduceOp::kMax, 0.0f, -0.0f)));
  EXPECT_FALSE(std::signbit(ReduceOne(ReduceOp::kMax, -0.0f, 0.0f)));
  EXPECT_TRUE(std::signbit(ReduceOne(ReduceOp::kMax, -0.0f, -0.0f)));
  for (ReduceOp op : {ReduceOp::kSum, ReduceOp::kProduct, ReduceOp::kMin, ReduceOp::kMax}) {
    for (float other : {0.0f, 1.0f, -kInfinity, kInfinity, kNan}) {
      EXPECT_TRUE(std::isnan(ReduceOne(op, kNan, other))) << ToString(op);
      EXPECT_TRUE(std::isnan(ReduceOne(op, other, kNan))) << ToString(op);
    }
  }
  EXPECT_EQ(std::bit_cast<uint32_t>(ReduceOne(ReduceOp::kSum, kInfinity, -kInfinity)), 0x7fc00000);
  EXPECT_EQ(ReduceOne(ReduceOp::kSum, 3e38f, 3e38f), kInfinity);
}

TEST(ReduceSpecialTest, SixtyFourBitIntegersAreExact) {
  const std::vector<int64_t> left = {INT64_MAX, INT64_MIN, (1ll << 53) + 1, -1};
  const std::vector<int64_t> right = {1, -1, 1ll << 53, INT64_MIN};
  std::vector<int64_t> out(4);
  Reduce(DataType::kInt64, ReduceOp::kSum, left.data(), right.data(), out.data(), 4);
  EXPECT_EQ(out, (std::vector<int64_t>{INT64_MIN, INT64_MAX, (1ll << 54) + 1, INT64_MAX}));
  Reduce(DataType::kInt64, ReduceOp::kMax, left.data(), right.data(), out.data(), 4);
  EXPECT_EQ(out, (std::vector<int64_t>{INT64_MAX, -1, (1ll << 53) + 1, -1}));
  Reduce(DataType::kUint64, ReduceOp::kMax, left.data(), right.data(), out.data(), 4);
  EXPECT_EQ(out, (std::vector<int64_t>{INT64_MAX, -1, (1ll << 53) + 1, -1}));
  Reduce(DataType::kUint64, ReduceOp::kMin, left.data(), right.data(), out.data(), 4);
  EXPECT_EQ(out, (std::vector<int64_t>{1, INT64_MIN, 1ll << 53, INT64_MIN}));
}

TEST(ReduceSpecialTest, BoolsAreTruthValues) {
  const std::vector<uint8_t> left = {0, 0, 1, 1, 2, 255}, right = {0, 1, 0, 1, 1, 128};
  std::vector<uint8_t> out(6);
  Reduce(DataType::kBool, ReduceOp::kSum, left.data(), right.data(), out.data(), 6);
  EXPECT_EQ(out, (std::vector<uint8_t>{0, 1, 1, 1, 1, 1}));
  Reduce(DataType::kBool, ReduceOp::kBxor, left.data(), right.data(), out.data(), 6);
  EXPECT_EQ(out, (std::vector<uint8_t>{0, 1, 1, 0, 0, 0}));
  Reduce(DataType::kBool, ReduceOp::kBand, left.data(), right.data(), out.data(), 6);
  EXPECT_EQ(out, (std::vector<uint8_t>{0, 0, 0, 1, 1, 1}));
}

// A reduction gives the same bits in a thread that flushes denormals or rounds upward, and leaves
// the thread's mode unchanged.
TEST(ReduceSpecialTest, ThreadModeDoesNotShow) {
  for (DataType type : reference::AllTypes()) {
    const Bytes left = MakeOperands(type, 200, 5), right = MakeOperands(type, 200, 6);
    Bytes expected(left.size()), out(left.size());
    Reduce(type, ReduceOp::kProduct, left.data(), right.data(), expected.data(), 200);
    std::fesetround(FE_UPWARD);
#if defined(__x86_64__)
    const unsigned saved = _mm_getcsr();
    _mm_setcsr(saved | 0x8040);  // FTZ and DAZ
#endif
    Reduce(type, ReduceOp::kProduct, left.data(), right.data(), out.data(), 200);
    const bool kept = std::fegetround() == FE_UPWARD;
#if defined(__x86_64__)
    const bool flushes = (_mm_getcsr() & 0x8040) == 0x8040;
    _mm_setcsr(saved);
    EXPECT_TRUE(flushes);
#endif
    std::fesetround(FE_TONEAREST);
    EXPECT_TRUE(kept);
    EXPECT_EQ(out, expected) << ToString(type);
  }
}

TEST(ScaleTest, MultipliesEveryFloatingType) {
  for (DataType type : reference::AllTypes()) {
    Bytes data = MakeOperands(type, 333, 8);
    if (!reference::IsFloating(type)) {
      EXPECT_THROW(Scale(type, data.data(), 2.0, 333), CheckFailure);
      continue;
    }
    const DataType part = reference::PartOf(type);
    for (double factor : {0.1, -3.0, 1.0, 0x1p-20}) {
      Bytes expected = data;
      const double used = part == DataType::kFloat64 ? factor : static_cast<float>(factor);
      for (size_t at = 0; at < data.size(); at += SizeOf(part)) {
        reference::PutFloat(part, &expected[at], reference::GetFloat(part, &data[at]) * used);
      }
      for (const KernelTable* table : UsableKernels()) {
        Bytes scaled = data;
        table->scale[static_cast<int>(type)](scaled.data(), factor, 333);
        EXPECT_EQ(scaled, expected) << table->name << " " << ToString(type) << " " << factor;
      }
      Scale(type, data.data(), factor, 333);
      EXPECT_EQ(data, expected);
    }
  }
}

TEST(DivideTest, TruncatesIntegersAndRoundsFloats) {
  for (DataType type : reference::AllTypes()) {
    if (type == DataType::kBool) continue;
    const Bytes data = MakeOperands(type, 333, 9);
    const DataType part = reference::PartOf(type);
    for (uint32_t divisor : {1u, 2u, 3u, 7u, 1000u, 0xffffffffu}) {
      Bytes expected = data;
      const double exact = divisor;
      const double used = part == DataType::kFloat64 ? exact : static_cast<float>(divisor);
      for (size_t at = 0; at < data.size(); at += SizeOf(part)) {
        if (reference::IsFloating(type)) {
          reference::PutFloat(part, &expected[at], reference::GetFloat(part, &data[at]) / used);
        } else {
          reference::VisitInteger(type, [&](auto tag) {
            using T = decltype(tag);
            const auto wide = static_cast<__int128>(reference::Get<T>(&data[at]));
            const T quotient = static_cast<T>(wide / divisor);
            std::memcpy(&expected[at], &quotient, sizeof(T));
          });
        }
      }
      for (const KernelTable* table : UsableKernels()) {
        Bytes divided = data;
        table->divide[static_cast<int>(type)](divided.data(), divisor, 333);
        EXPECT_EQ(divided, expected) << table->name << " " << ToString(type) << " " << divisor;
      }
    }
  }
}

TEST(DivideTest, RefusesZeroAndBool) {
  int32_t value = 1;
  EXPECT_THROW(Divide(DataType::kInt32, &value, 0, 1), CheckFailure);
  EXPECT_THROW(Divide(DataType::kBool, &value, 2, 1), CheckFailure);
  value = -7;
  Divide(DataType::kInt32, &value, 2, 1);
  EXPECT_EQ(value, -3);
}

}  // namespace
}  // namespace rocecoll
