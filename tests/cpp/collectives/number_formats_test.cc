// SPDX-License-Identifier: Apache-2.0
#include "collectives/number_formats.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "base/random.h"
#include "collectives/reduce_reference.h"

namespace rocecoll {
namespace {

template <typename Format, DataType kType>
struct Case {
  using Codec = Format;
  static constexpr DataType kDataType = kType;
};

template <typename T>
class SmallFloatTest : public testing::Test {};

using Cases = testing::Types<
    Case<Float16, DataType::kFloat16>, Case<Bfloat16, DataType::kBfloat16>,
    Case<Float8E4m3fn, DataType::kFloat8E4m3fn>, Case<Float8E4m3fnuz, DataType::kFloat8E4m3fnuz>,
    Case<Float8E5m2, DataType::kFloat8E5m2>, Case<Float8E5m2fnuz, DataType::kFloat8E5m2fnuz>,
    Case<Float8E8m0fnu, DataType::kFloat8E8m0fnu>>;
TYPED_TEST_SUITE(SmallFloatTest, Cases);

template <typename T>
void ExpectEncodesLikeReference(float value) {
  ASSERT_EQ(T::Codec::Encode(value), reference::Encode(T::kDataType, value))
      << "bits " << std::hex << std::bit_cast<uint32_t>(value);
}

TYPED_TEST(SmallFloatTest, DecodesEveryCode) {
  const uint32_t codes = 1u << (8 * SizeOf(TypeParam::kDataType));
  for (uint32_t code = 0; code < codes; ++code) {
    const float value =
        TypeParam::Codec::Decode(static_cast<typename TypeParam::Codec::Storage>(code));
    const float expected = reference::Decode(TypeParam::kDataType, code);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(value)) << code;
    } else {
      ASSERT_EQ(std::bit_cast<uint32_t>(value), std::bit_cast<uint32_t>(expected)) << code;
    }
  }
}

TYPED_TEST(SmallFloatTest, EncodesEveryNumberOfTheFormatToItself) {
  const uint32_t codes = 1u << (8 * SizeOf(TypeParam::kDataType));
  for (uint32_t code = 0; code < codes; ++code) {
    const float value =
        TypeParam::Codec::Decode(static_cast<typename TypeParam::Codec::Storage>(code));
    const bool infinite_saturates =
        std::isinf(value) && TypeParam::kDataType == DataType::kFloat8E4m3fn;
    if (!std::isnan(value) && !infinite_saturates) {
      ASSERT_EQ(TypeParam::Codec::Encode(value), code);
    }
  }
}

TYPED_TEST(SmallFloatTest, RoundsToNearestEvenAroundEveryMiddle) {
  const reference::Format& format = reference::FormatOf(TypeParam::kDataType);
  for (uint32_t code = 0; code <= format.max_code; ++code) {
    const double low = reference::Magnitude(format, code);
    const double high = reference::Magnitude(format, code + 1);
    const float middle = static_cast<float>((low + high) / 2);
    for (float value : {middle, std::nextafter(middle, 0.0f), std::nextafter(middle, HUGE_VALF)}) {
      ExpectEncodesLikeReference<TypeParam>(value);
      ExpectEncodesLikeReference<TypeParam>(-value);
    }
  }
}

TYPED_TEST(SmallFloatTest, EncodesRandomBitsAndSpecialValues) {
  Random random(7);
  for (int i = 0; i < 100000; ++i) {
    ExpectEncodesLikeReference<TypeParam>(
        std::bit_cast<float>(static_cast<uint32_t>(random.next())));
  }
  using Limits = std::numeric_limits<float>;
  for (float value : {0.0f, Limits::infinity(), Limits::quiet_NaN(), Limits::max(), Limits::min(),
                      Limits::denorm_min()}) {
    ExpectEncodesLikeReference<TypeParam>(value);
    ExpectEncodesLikeReference<TypeParam>(-value);
  }
}

// The results of tensor.to(dtype) in torch 2.13 on a CPU, without NaNs.
TEST(SmallFloatAgainstTorch, ConvertsLikeTorch) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  struct Row {
    float value;
    uint32_t half, bfloat, e4m3fn, e4m3fnuz, e5m2, e5m2fnuz, e8m0fnu;
  };
  const std::vector<Row> rows = {
      {0.0f, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0},
      {-0.0f, 0x8000, 0x8000, 0x80, 0x0, 0x80, 0x0, 0x0},
      {1.0f, 0x3c00, 0x3f80, 0x38, 0x40, 0x3c, 0x40, 0x7f},
      {-1.5f, 0xbe00, 0xbfc0, 0xbc, 0xc4, 0xbe, 0xc2, 0x80},
      {0.1f, 0x2e66, 0x3dcd, 0x1d, 0x25, 0x2e, 0x32, 0x7c},
      {-0.3f, 0xb4cd, 0xbe9a, 0xaa, 0xb2, 0xb5, 0xb9, 0x7d},
      {3.14159f, 0x4248, 0x4049, 0x45, 0x4d, 0x42, 0x46, 0x81},
      {-17.0f, 0xcc40, 0xc188, 0xd8, 0xe0, 0xcc, 0xd0, 0x83},
      {19.0f, 0x4cc0, 0x4198, 0x5a, 0x62, 0x4d, 0x51, 0x83},
      {100.0f, 0x5640, 0x42c8, 0x6c, 0x74, 0x56, 0x5a, 0x86},
      {240.0f, 0x5b80, 0x4370, 0x77, 0x7f, 0x5c, 0x60, 0x87},
      {248.0f, 0x5bc0, 0x4378, 0x78, 0x80, 0x5c, 0x60, 0x87},
      {-248.0f, 0xdbc0, 0xc378, 0xf8, 0x80, 0xdc, 0xe0, 0x87},
      {447.0f, 0x5efc, 0x43e0, 0x7e, 0x80, 0x5f, 0x63, 0x88},
      {449.0f, 0x5f04, 0x43e0, 0x7e, 0x80, 0x5f, 0x63, 0x88},
      {464.0f, 0x5f40, 0x43e8, 0x7e, 0x80, 0x5f, 0x63, 0x88},
      {-480.0f, 0xdf80, 0xc3f0, 0xfe, 0x80, 0xe0, 0xe4, 0x88},
      {57344.0f, 0x7b00, 0x4760, 0x7e, 0x80, 0x7b, 0x7f, 0x8f},
      {61439.0f, 0x7b80, 0x4770, 0x7e, 0x80, 0x7b, 0x7f, 0x8f},
      {61440.0f, 0x7b80, 0x4770, 0x7e, 0x80, 0x7c, 0x80, 0x8f},
      {-65504.0f, 0xfbff, 0xc780, 0xfe, 0x80, 0xfc, 0x80, 0x8f},
      {65519.0f, 0x7bff, 0x4780, 0x7e, 0x80, 0x7c, 0x80, 0x8f},
      {65520.0f, 0x7c00, 0x4780, 0x7e, 0x80, 0x7c, 0x80, 0x8f},
      {1e30f, 0x7c00, 0x714a, 0x7e, 0x80, 0x7c, 0x80, 0xe3},
      {-3.3e38f, 0xfc00, 0xff78, 0xfe, 0x80, 0xfc, 0x80, 0xff},
      {kInfinity, 0x7c00, 0x7f80, 0x7e, 0x80, 0x7c, 0x80, 0xff},
      {-kInfinity, 0xfc00, 0xff80, 0xfe, 0x80, 0xfc, 0x80, 0xff},
      {0x1p-7f, 0x2000, 0x3c00, 0x4, 0x8, 0x20, 0x24, 0x78},
      {0x1.8p-8f, 0x1e00, 0x3bc0, 0x3, 0x6, 0x1e, 0x22, 0x78},
      {0x1p-9f, 0x1800, 0x3b00, 0x1, 0x2, 0x18, 0x1c, 0x76},
      {0x1p-10f, 0x1400, 0x3a80, 0x0, 0x1, 0x14, 0x18, 0x75},
      {0x1.8p-10f, 0x1600, 0x3ac0, 0x1, 0x2, 0x16, 0x1a, 0x76},
      {-0x1p-11f, 0x9000, 0xba00, 0x80, 0x0, 0x90, 0x94, 0x74},
      {0x1p-14f, 0x400, 0x3880, 0x0, 0x0, 0x4, 0x8, 0x71},
      {0x1p-16f, 0x100, 0x3780, 0x0, 0x0, 0x1, 0x2, 0x6f},
      {0x1p-17f, 0x80, 0x3700, 0x0, 0x0, 0x0, 0x1, 0x6e},
      {-0x1p-18f, 0x8040, 0xb680, 0x80, 0x0, 0x80, 0x0, 0x6d},
      {0x1.8p-17f, 0xc0, 0x3740, 0x0, 0x0, 0x1, 0x2, 0x6f},
      {0x1p-24f, 0x1, 0x3380, 0x0, 0x0, 0x0, 0x0, 0x67},
      {0x1p-25f, 0x0, 0x3300, 0x0, 0x0, 0x0, 0x0, 0x66},
      {0x1.8p-25f, 0x1, 0x3340, 0x0, 0x0, 0x0, 0x0, 0x67},
      {-0x1p-26f, 0x8000, 0xb280, 0x80, 0x0, 0x80, 0x0, 0x65},
      {0x1p-126f, 0x0, 0x80, 0x0, 0x0, 0x0, 0x0, 0x1},
      {0x1p-127f, 0x0, 0x40, 0x0, 0x0, 0x0, 0x0, 0x0},
      {0x1.8p-127f, 0x0, 0x60, 0x0, 0x0, 0x0, 0x0, 0x1},
      {0x1.8p-126f, 0x0, 0xc0, 0x0, 0x0, 0x0, 0x0, 0x2},
      {0x1p-149f, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(Float16::Encode(row.value), row.half) << row.value;
    EXPECT_EQ(Bfloat16::Encode(row.value), row.bfloat) << row.value;
    EXPECT_EQ(Float8E4m3fn::Encode(row.value), row.e4m3fn) << row.value;
    EXPECT_EQ(Float8E4m3fnuz::Encode(row.value), row.e4m3fnuz) << row.value;
    EXPECT_EQ(Float8E5m2::Encode(row.value), row.e5m2) << row.value;
    EXPECT_EQ(Float8E5m2fnuz::Encode(row.value), row.e5m2fnuz) << row.value;
    EXPECT_EQ(Float8E8m0fnu::Encode(row.value), row.e8m0fnu) << row.value;
  }
}

TEST(SmallFloatAgainstTorch, HasOneNan) {
  for (uint32_t bits : {0x7f800001u, 0x7fc00000u, 0xffc00000u, 0xffffffffu, 0x7fffffffu}) {
    const float nan = std::bit_cast<float>(bits);
    EXPECT_EQ(Float16::Encode(nan), 0x7e00);
    EXPECT_EQ(Bfloat16::Encode(nan), 0x7fc0);
    EXPECT_EQ(Float8E4m3fn::Encode(nan), 0x7f);
    EXPECT_EQ(Float8E4m3fnuz::Encode(nan), 0x80);
    EXPECT_EQ(Float8E5m2::Encode(nan), 0x7f);
    EXPECT_EQ(Float8E5m2fnuz::Encode(nan), 0x80);
    EXPECT_EQ(Float8E8m0fnu::Encode(nan), 0xff);
  }
}

}  // namespace
}  // namespace rocecoll
