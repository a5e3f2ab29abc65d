// SPDX-License-Identifier: Apache-2.0
#include "base/status.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>

namespace rocecoll {
namespace {

TEST(StatusTest, DefaultIsOk) {
  const Status status;
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(status.code(), StatusCode::kOk);
  EXPECT_EQ(status.message(), "");
}

TEST(StatusTest, CarriesCodeAndMessage) {
  const Status status(StatusCode::kPeerLost, "rank 3 is gone");
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(status.code(), StatusCode::kPeerLost);
  EXPECT_EQ(status.message(), "rank 3 is gone");
}

TEST(StatusTest, EveryCodeHasItsOwnName) {
  std::set<std::string_view> names;
  for (const StatusCodeTraits& row : kStatusCodeTraits) names.insert(ToString(row.code));
  EXPECT_EQ(names.size(), kStatusCodeTraits.size());
  EXPECT_EQ(ToString(StatusCode::kInternal), "internal error");
}

Result<int> Half(int value) {
  if (value % 2 != 0) return Status(StatusCode::kInvalidArgument, "odd");
  return value / 2;
}

TEST(ResultTest, IsTheValueOrTheReasonWhyNot) {
  EXPECT_TRUE(Half(8).ok());
  EXPECT_EQ(Half(8).value(), 4);
  EXPECT_TRUE(Half(8).status().ok());
  const Result<int> odd = Half(7);
  EXPECT_FALSE(odd.ok());
  EXPECT_EQ(odd.status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(odd.status().message(), "odd");
}

TEST(ResultTest, TheValueOfAnErrorIsACheckFailure) {
  Result<int> odd = Half(7);
  EXPECT_THROW(odd.value(), CheckFailure);
  EXPECT_THROW(odd.take(), CheckFailure);
  EXPECT_THROW(std::as_const(odd).value(), CheckFailure);
}

TEST(ResultTest, AnOkStatusIsNoError) { EXPECT_THROW(Result<int>{Status()}, CheckFailure); }

TEST(ResultTest, TakeMovesTheValueOut) {
  Result<std::unique_ptr<int>> result(std::make_unique<int>(5));
  std::unique_ptr<int> taken = result.take();
  ASSERT_NE(taken, nullptr);
  EXPECT_EQ(*taken, 5);
  EXPECT_EQ(result.value(), nullptr);
}

}  // namespace
}  // namespace rocecoll
