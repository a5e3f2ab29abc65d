// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/hca_filter.h"

#include <gtest/gtest.h>

#include <string>

namespace rocecoll {
namespace {

std::optional<size_t> RankOf(const std::string& filter, const std::string& device, uint32_t port) {
  Result<HcaFilter> parsed = HcaFilter::Parse(filter);
  EXPECT_TRUE(parsed.ok()) << parsed.status().message();
  return parsed.ok() ? parsed.value().rank(device, port) : std::nullopt;
}

TEST(HcaFilter, AllowsEverythingWhenEmpty) { EXPECT_EQ(RankOf("", "mlx5_0", 1), 0u); }

TEST(HcaFilter, TakesPrefixesInTheirOrder) {
  EXPECT_EQ(RankOf("mlx5", "mlx5_0", 1), 0u);
  EXPECT_EQ(RankOf("mlx5_1,mlx5", "mlx5_0", 1), 1u);
  EXPECT_EQ(RankOf("mlx5_1,mlx5", "mlx5_10", 1), 0u);
  EXPECT_EQ(RankOf("mlx5_1,mlx5", "rxe0", 1), std::nullopt);
}

TEST(HcaFilter, TakesWholeNames) {
  EXPECT_EQ(RankOf("=mlx5_1", "mlx5_1", 2), 0u);
  EXPECT_EQ(RankOf("=mlx5_1", "mlx5_10", 1), std::nullopt);
  EXPECT_EQ(RankOf("=mlx5", "mlx5_1", 1), std::nullopt);
}

TEST(HcaFilter, TakesPorts) {
  EXPECT_EQ(RankOf("=mlx5_0:1,mlx5_1:2", "mlx5_0", 1), 0u);
  EXPECT_EQ(RankOf("=mlx5_0:1,mlx5_1:2", "mlx5_1", 2), 1u);
  EXPECT_EQ(RankOf("=mlx5_0:1,mlx5_1:2", "mlx5_1", 1), std::nullopt);
  EXPECT_EQ(RankOf("mlx5:255", "mlx5_1", 255), 0u);
}

TEST(HcaFilter, Excludes) {
  EXPECT_EQ(RankOf("^mlx5", "mlx5_0", 1), std::nullopt);
  EXPECT_EQ(RankOf("^mlx5", "rxe0", 1), 0u);
  EXPECT_EQ(RankOf("^=mlx5_1:2", "mlx5_1", 2), std::nullopt);
  EXPECT_EQ(RankOf("^=mlx5_1:2", "mlx5_1", 1), 0u);
  EXPECT_EQ(RankOf("^=mlx5_1:2", "mlx5_10", 2), 0u);
}

TEST(HcaFilter, RefusesWhatIsNotOfTheGrammar) {
  for (const char* text : {"^", "=", "^=", ",", "a,", ",a", "a,,b", "a:", "a:0", "a:256", "a:x",
                           "a:1:2", "a:-1", ":1", "=^a", "a,^b", "a, b"}) {
    const Result<HcaFilter> parsed = HcaFilter::Parse(text);
    EXPECT_EQ(parsed.status().code(), StatusCode::kInvalidArgument) << text;
  }
}

}  // namespace
}  // namespace rocecoll
