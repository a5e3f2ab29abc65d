// SPDX-License-Identifier: Apache-2.0
#include "transport/fast_paths/rc/stream_credits.h"

#include <gtest/gtest.h>

namespace rocecoll {
namespace {

StreamHeader Returned(StreamCredits& credits) {
  StreamHeader header;
  credits.return_in(header);
  return header;
}

TEST(StreamCredits, AreThePeersToGive) {
  StreamCredits credits(/*ours=*/16, /*peers=*/2);
  credits.use();
  EXPECT_TRUE(credits.any());
  credits.use();
  EXPECT_FALSE(credits.any());
  StreamHeader header;
  header.credits = 1;
  credits.on_returned(header);
  EXPECT_TRUE(credits.any());
  EXPECT_TRUE(credits.any_bare()) << "counted apart";
}

TEST(StreamCredits, ReturnOnceHalfOfAllAreOwed) {
  StreamCredits credits(/*ours=*/16, /*peers=*/16);
  for (int i = 0; i < 7; ++i) credits.owe(/*bare=*/false);
  EXPECT_FALSE(credits.must_return());
  credits.owe(/*bare=*/false);
  EXPECT_TRUE(credits.must_return());
  EXPECT_EQ(Returned(credits).credits, 8);
  EXPECT_FALSE(credits.must_return());
  EXPECT_EQ(Returned(credits).credits, 0) << "only once";
}

TEST(StreamCredits, OfASingleCreditTheOneReturns) {
  StreamCredits credits(/*ours=*/1, /*peers=*/1);
  EXPECT_FALSE(credits.must_return());
  credits.owe(/*bare=*/false);
  EXPECT_TRUE(credits.must_return());
}

TEST(StreamCredits, AHeaderTakesNoMoreThanItHolds) {
  StreamCredits credits(/*ours=*/16, /*peers=*/16);
  for (int i = 0; i < UINT8_MAX + 3; ++i) credits.owe(/*bare=*/true);
  EXPECT_EQ(Returned(credits).bare_credits, UINT8_MAX);
  EXPECT_EQ(Returned(credits).bare_credits, 3);
}

// Each message of credits may have the other end owe one in turn.
TEST(StreamCredits, IdleEndsFallSilent) {
  StreamCredits ends[2]{{16, 16}, {16, 16}};
  for (int i = 0; i < 8; ++i) ends[0].owe(/*bare=*/false);
  int messages = 0;
  for (int from = 0; ends[from].must_return(); from = 1 - from, ++messages) {
    ASSERT_LT(messages, 4);
    ends[from].use_bare();
    ends[1 - from].on_returned(Returned(ends[from]));
    ends[1 - from].owe(/*bare=*/true);
  }
  EXPECT_EQ(messages, 1);
}

// A peer that says nothing of new credits takes at most its own bare ones.
TEST(StreamCredits, MessagesOfCreditsHaveAnEndOfTheirOwn) {
  StreamCredits credits(/*ours=*/1, /*peers=*/1);
  for (uint32_t i = 0; i < StreamCredits::kBare; ++i) {
    ASSERT_TRUE(credits.any_bare());
    credits.use_bare();
  }
  EXPECT_FALSE(credits.any_bare());
  EXPECT_EQ(StreamCredits::ReceivesFor(1), 1 + StreamCredits::kBare + 1) << "and the probe";
}

}  // namespace
}  // namespace rocecoll
