// SPDX-License-Identifier: Apache-2.0
#include "engine/groups/notice.h"

#include <gtest/gtest.h>

#include <string>

namespace rocecoll {
namespace {

constexpr GroupKey kGroup{1, 2};
constexpr size_t kByteOfKind = 24;

AbortNotice Lost(const std::string& cause) {
  return {kGroup, Status(StatusCode::kPeerLost, cause).reported_by(3)};
}

TEST(Notice, ThatAGroupHasFailedSurvivesTheWire) {
  const auto bytes = Encode(Lost("rank 3 reported: lost"), 512);
  const auto parsed = ParseNotice(bytes);
  ASSERT_TRUE(parsed.has_value());
  const auto& notice = std::get<AbortNotice>(*parsed);
  EXPECT_EQ(notice.group, kGroup);
  EXPECT_EQ(notice.report.reporter(), 3u);
  EXPECT_EQ(notice.report.code(), StatusCode::kPeerLost);
  EXPECT_EQ(notice.report.message(), "rank 3 reported: lost");
}

TEST(Notice, OfALongCauseTheBeginningFits) {
  EXPECT_EQ(Encode(Lost(std::string(1000, 'x')), 100).size(), 100u);
  const auto cut = ParseNotice(Encode(Lost("\u20ac\u20ac"), kByteOfKind + 1 + 5));
  EXPECT_EQ(std::get<AbortNotice>(cut.value()).report.message(), "\u20ac");
}

TEST(Notice, ThatARankHasLeftSurvivesTheWire) {
  auto bytes = Encode(LeftNotice{kGroup, 3});
  const auto parsed = ParseNotice(bytes);
  ASSERT_TRUE(parsed.has_value());
  EXPECT_EQ(std::get<LeftNotice>(*parsed).group, kGroup);
  EXPECT_EQ(std::get<LeftNotice>(*parsed).from, 3u);
  EXPECT_FALSE(ParseNotice(std::span(bytes).first(bytes.size() - 1)).has_value());
  bytes.push_back(std::byte{0});
  EXPECT_FALSE(ParseNotice(bytes).has_value());
}

TEST(Notice, OfARollCallSurvivesTheWire) {
  using Kind = RollCallNotice::Kind;
  for (const Kind kind : {Kind::kQuestion, Kind::kNotCalled, Kind::kCalled}) {
    const auto bytes = Encode(RollCallNotice{kGroup, 3, kind, uint64_t{5} << 40});
    const auto parsed = ParseNotice(bytes);
    ASSERT_TRUE(parsed.has_value());
    const auto& notice = std::get<RollCallNotice>(*parsed);
    EXPECT_EQ(notice.group, kGroup);
    EXPECT_EQ(notice.from, 3u);
    EXPECT_EQ(notice.kind, kind);
    EXPECT_EQ(notice.sequence, uint64_t{5} << 40);
    for (size_t size = 0; size < bytes.size(); ++size) {
      EXPECT_FALSE(ParseNotice(std::span(bytes).first(size)).has_value());
    }
  }
}

TEST(Notice, GarbageIsRefused) {
  const auto refused = [](std::vector<std::byte> bytes, size_t at, uint8_t value) {
    bytes[at] = std::byte{value};
    return !ParseNotice(bytes).has_value();
  };
  const auto lost = Encode(Lost("gone"), 512);
  for (size_t size = 0; size <= kByteOfKind; ++size) {
    EXPECT_FALSE(ParseNotice(std::span(lost).first(size)).has_value());
  }
  EXPECT_TRUE(refused(lost, 0, 0)) << "no kind of notice";
  EXPECT_TRUE(refused(lost, kByteOfKind, 0)) << "ok is no cause";
  EXPECT_TRUE(refused(lost, kByteOfKind, 200));
  const auto called = Encode(RollCallNotice{kGroup, 3, RollCallNotice::Kind::kCalled, 4});
  EXPECT_TRUE(refused(called, kByteOfKind, 3));
}

}  // namespace
}  // namespace rocecoll
