// SPDX-License-Identifier: Apache-2.0
// The notices of a roll call, and when it is over.
#include "engine/roll_call.h"

#include <gtest/gtest.h>

#include "engine/abort_notice.h"

namespace rocecoll {
namespace {

using std::chrono::milliseconds;

TEST(RollCall, NoticesRoundTripAndNothingElseParses) {
  using Kind = RollCallNotice::Kind;
  for (const Kind kind : {Kind::kQuestion, Kind::kNotCalled, Kind::kCalled}) {
    const auto bytes = EncodeRollCall({1, 2, 3, kind, uint64_t{5} << 40});
    const auto parsed = ParseRollCall(bytes);
    ASSERT_TRUE(parsed.has_value());
    EXPECT_EQ(parsed->group_high, 1u);
    EXPECT_EQ(parsed->group_low, 2u);
    EXPECT_EQ(parsed->from, 3u);
    EXPECT_EQ(parsed->kind, kind);
    EXPECT_EQ(parsed->sequence, uint64_t{5} << 40);
    EXPECT_FALSE(ParseAbortNotice(bytes).has_value());
    for (size_t size = 0; size < bytes.size(); ++size) {
      EXPECT_FALSE(ParseRollCall(std::span(bytes).first(size)).has_value());
    }
  }
  auto bytes = EncodeRollCall({1, 2, 3, Kind::kCalled, 4});
  bytes[24] = std::byte{3};
  EXPECT_FALSE(ParseRollCall(bytes).has_value());
  EXPECT_FALSE(ParseRollCall(
                   EncodeAbortNotice({1, 2, Status(StatusCode::kAborted, "x").reported_by(3)}, 100))
                   .has_value());
}

TEST(RollCall, AsksAgainUntilAllHaveAnsweredOrTheTimeIsOver) {
  Instant now{};
  RollCall call;
  EXPECT_FALSE(call.active());
  call.begin(now, 7, 4, 1);
  std::vector<Rank> asked;
  const auto ask = [&] {
    asked.clear();
    call.ask(now, [&](Rank rank) { asked.push_back(rank); });
  };
  ask();
  EXPECT_EQ(asked, (std::vector<Rank>{0, 2, 3}));
  ask();
  EXPECT_TRUE(asked.empty());
  call.on_answer(2, 6, true);  // to an older question
  call.on_answer(0, 7, false);
  call.on_answer(3, 7, true);
  call.on_answer(3, 7, false);
  now = call.next_look();
  ask();
  EXPECT_EQ(asked, (std::vector<Rank>{2}));
  EXPECT_EQ(call.absent(), (std::vector<Rank>{0}));
  EXPECT_EQ(call.silent(), (std::vector<Rank>{2}));
  int rounds = 0;
  for (; !call.over(now) && rounds < 100; ++rounds) {
    ask();
    now = call.next_look();
  }
  EXPECT_LT(rounds, 10);
  RollCall answered;
  answered.begin(now, 1, 2, 0);
  EXPECT_FALSE(answered.over(now));
  answered.on_answer(1, 1, true);
  EXPECT_TRUE(answered.over(now));
  EXPECT_LE(answered.next_look(), now);
}

}  // namespace
}  // namespace rocecoll
