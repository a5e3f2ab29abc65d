// SPDX-License-Identifier: Apache-2.0
#include "base/check.h"

#include <gtest/gtest.h>

#include <string>

namespace rocecoll {
namespace {

TEST(CheckTest, PassesQuietlyAndEvaluatesOnce) {
  int calls = 0;
  ROCECOLL_CHECK(++calls == 1);
  EXPECT_EQ(calls, 1);
}

TEST(CheckTest, FailureNamesConditionAndPlace) {
  const int line = __LINE__ + 2;
  try {
    ROCECOLL_CHECK(1 + 1 == 3);
    FAIL() << "the check passed";
  } catch (const CheckFailure& failure) {
    const std::string what = failure.what();
    EXPECT_NE(what.find("1 + 1 == 3"), std::string::npos);
    EXPECT_NE(what.find("check_test.cc:" + std::to_string(line)), std::string::npos) << what;
  }
}

TEST(CheckTest, StaysOnWhateverTheBuild) {
  // An entry point of the engine catches this type in particular, not just any error.
  EXPECT_THROW(ROCECOLL_CHECK(false), CheckFailure);
}

// Used in an expression without braces, as in `if (...) ROCECOLL_CHECK(...); else ...`.
TEST(CheckTest, IsOneStatement) {
  bool other = false;
  if (other)
    ROCECOLL_CHECK(false);
  else
    other = true;
  EXPECT_TRUE(other);
}

}  // namespace
}  // namespace rocecoll
