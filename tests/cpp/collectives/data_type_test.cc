// SPDX-License-Identifier: Apache-2.0
#include "collectives/data_type.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <string_view>

#include "base/check.h"

namespace rocecoll {
namespace {

TEST(DataTypeTest, NamesAreTorchsAndSizesFollowThem) {
  EXPECT_EQ(ToString(DataType::kBool), "bool");
  EXPECT_EQ(ToString(DataType::kBfloat16), "bfloat16");
  EXPECT_EQ(ToString(DataType::kComplex128), "complex128");
  EXPECT_EQ(ToString(DataType::kFloat8E8m0fnu), "float8_e8m0fnu");
  std::set<std::string_view> names;
  for (int i = 0; i < kDataTypes; ++i) {
    const DataType type = static_cast<DataType>(i);
    const std::string_view name = ToString(type);
    names.insert(name);
    // The number of bits follows the kind in the name, and precedes the variant of an 8-bit float.
    size_t bits = 0;
    for (char c : name.substr(0, name.find('_'))) {
      if (c >= '0' && c <= '9') bits = 10 * bits + static_cast<size_t>(c - '0');
    }
    if (type == DataType::kBool) bits = 8;
    EXPECT_EQ(SizeOf(type), bits / 8) << name;
  }
  EXPECT_EQ(names.size(), static_cast<size_t>(kDataTypes));
}

TEST(DataTypeTest, OpsHaveTorchsNames) {
  EXPECT_EQ(ToString(ReduceOp::kSum), "SUM");
  EXPECT_EQ(ToString(ReduceOp::kPremulSum), "PREMUL_SUM");
  std::set<std::string_view> names;
  for (int i = 0; i < kReduceOps; ++i) names.insert(ToString(static_cast<ReduceOp>(i)));
  EXPECT_EQ(names.size(), static_cast<size_t>(kReduceOps));
}

TEST(DataTypeTest, NumbersOnTheWireStay) {
  std::string types, ops;
  for (const DataTypeTraits& traits : kDataTypeTraits) types += std::string(traits.name) + " ";
  for (const ReduceOpTraits& traits : kReduceOpTraits) ops += std::string(traits.name) + " ";
  EXPECT_EQ(types,
            "bool uint8 int8 uint16 int16 uint32 int32 uint64 int64 float16 bfloat16 float32 "
            "float64 complex32 complex64 complex128 float8_e4m3fn float8_e4m3fnuz float8_e5m2 "
            "float8_e5m2fnuz float8_e8m0fnu ");
  EXPECT_EQ(ops, "SUM AVG PRODUCT MIN MAX BAND BOR BXOR PREMUL_SUM ");
}

TEST(DataTypeTest, NumbersFromOutsideAreCaught) {
  EXPECT_THROW(SizeOf(static_cast<DataType>(kDataTypes)), CheckFailure);
  EXPECT_THROW(ToString(static_cast<DataType>(255)), CheckFailure);
  EXPECT_THROW(ToString(static_cast<ReduceOp>(kReduceOps)), CheckFailure);
}

}  // namespace
}  // namespace rocecoll
