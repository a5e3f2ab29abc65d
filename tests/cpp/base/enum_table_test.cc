// SPDX-License-Identifier: Apache-2.0
#include "base/enum_table.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace rocecoll {

enum class Shade : uint8_t { kLight, kDark, kShade256 };

namespace {

enum class Suit { kClubs, kSpades };
enum class OnWire : uint8_t { kFirst = 1, kSecond };

struct Row {
  Shade shade;
  int value;
};

constexpr std::array<Row, 3> kComplete{
    {{Shade::kLight, 1}, {Shade::kDark, 2}, {Shade::kShade256, 3}}};
constexpr std::array<Row, 3> kDisordered{
    {{Shade::kDark, 2}, {Shade::kLight, 1}, {Shade::kShade256, 3}}};
constexpr std::array<Row, 3> kTwice{{{Shade::kLight, 1}, {Shade::kDark, 2}, {Shade::kDark, 3}}};
constexpr std::array<Row, 2> kShort{{{Shade::kLight, 1}, {Shade::kDark, 2}}};
constexpr std::array<Row, 4> kLong{
    {{Shade::kLight, 1}, {Shade::kDark, 2}, {Shade::kShade256, 3}, {static_cast<Shade>(3), 4}}};

TEST(EnumTable, CountsEnumerators) {
  static_assert(IsEnumerator<Shade::kShade256>());
  static_assert(!IsEnumerator<static_cast<Shade>(3)>());
  static_assert(CountEnumerators<Shade>() == 3);
  static_assert(CountEnumerators<Suit>() == 2);
}

TEST(EnumTable, TakesTheNumbersOfEnumeratorsOnly) {
  static_assert(EnumeratorOf<Shade>(0) == Shade::kLight);
  EXPECT_EQ(EnumeratorOf<Shade>(2), Shade::kShade256);
  EXPECT_EQ(EnumeratorOf<Shade>(3), std::nullopt);
  EXPECT_EQ(EnumeratorOf<Shade>(255), std::nullopt);
  EXPECT_EQ((EnumeratorOf<OnWire, 1>(0)), std::nullopt);
  EXPECT_EQ((EnumeratorOf<OnWire, 1>(1)), OnWire::kFirst);
  EXPECT_EQ((EnumeratorOf<OnWire, 1>(2)), OnWire::kSecond);
  EXPECT_EQ((EnumeratorOf<OnWire, 1>(3)), std::nullopt);
}

TEST(EnumTable, FindsRowsThatAreMissingTwiceOrOutOfOrder) {
  static_assert(HasRowForEach(kComplete, &Row::shade));
  static_assert(!HasRowForEach(kDisordered, &Row::shade));
  static_assert(!HasRowForEach(kTwice, &Row::shade));
  static_assert(!HasRowForEach(kShort, &Row::shade));
  static_assert(!HasRowForEach(kLong, &Row::shade));
}

TEST(EnumTable, LooksUpRowsAndRefusesOtherNumbers) {
  static_assert(RowOf(kComplete, Shade::kDark).value == 2);
  EXPECT_EQ(RowOf(kComplete, Shade::kShade256).value, 3);
  EXPECT_THROW(RowOf(kComplete, static_cast<Shade>(3)), CheckFailure);
}

}  // namespace
}  // namespace rocecoll
