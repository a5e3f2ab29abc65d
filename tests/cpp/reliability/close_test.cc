// SPDX-License-Identifier: Apache-2.0
// How connections end: in good order or by abort, from either side and under loss.
#include <gtest/gtest.h>

#include "reliability/connection_pair.h"

namespace rocecoll {
namespace {

TEST(Close, InGoodOrderDeliversAllFramesFirst) {
  for (double loss : {0.0, 0.1, 0.3}) {
    for (uint64_t seed = 1; seed <= 30; ++seed) {
      ConnectionPair pair(seed, ChannelFaults::Everything(loss));
      ASSERT_TRUE(pair.establish());
      for (uint64_t i = 0; i < 60; ++i) ASSERT_TRUE(pair.at(0).send_frame(TestBytes(700, i)));
      pair.close(0);
      ASSERT_TRUE(pair.run_until([&] { return pair.end(1).downs == 1; })) << seed;
      ASSERT_EQ(pair.at(1).status().code(), StatusCode::kPeerLeft) << seed;
      ASSERT_EQ(pair.end(1).frames.size(), 60u);
      for (uint64_t i = 0; i < 60; ++i) ASSERT_EQ(pair.end(1).frames[i], TestBytes(700, i));
      pair.close(1);
      ASSERT_TRUE(pair.run_until([&] { return pair.at(0).finished() && pair.at(1).finished(); }));
      EXPECT_EQ(pair.end(0).events_after_end + pair.end(1).events_after_end, 0u);
      EXPECT_EQ(pair.end(0).path.congestion->bytes_in_flight(), 0u);
    }
  }
}

TEST(Close, FramesFromBeforeTheOpeningAreStillDelivered) {
  ConnectionPair pair(1, {}, {}, false);
  ASSERT_TRUE(pair.at(0).send_frame(TestBytes(10, 1)));
  pair.close(0);
  pair.run_for(milliseconds(500));
  pair.open(1);
  ASSERT_TRUE(pair.run_until([&] { return pair.end(1).downs == 1; }));
  EXPECT_EQ(pair.end(1).frames.size(), 1u);
  EXPECT_EQ(pair.at(1).status().code(), StatusCode::kPeerLeft);
}

TEST(Close, AbortTellsTheReasonAtOnce) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    ConnectionPair pair(seed, ChannelFaults::Everything(0.3));
    ASSERT_TRUE(pair.establish());
    for (uint64_t i = 0; i < 60; ++i) ASSERT_TRUE(pair.at(0).send_frame(TestBytes(700, i)));
    pair.close(0, Status(StatusCode::kMismatch, "stop").reported_by(3));
    ASSERT_TRUE(pair.run_until([&] { return pair.end(1).downs == 1; })) << seed;
    EXPECT_EQ(pair.at(1).status().code(), StatusCode::kMismatch);
    EXPECT_EQ(pair.at(1).status().reporter(), 3u);
    EXPECT_EQ(pair.at(1).status().message(), "stop");
    ASSERT_TRUE(pair.run_until([&] { return pair.at(0).finished(); }));
  }
}

TEST(Close, ALongReasonIsCutToWhatFitsBetweenCharacters) {
  const std::string euros = "\u20ac\u20ac\u20ac\u20ac";
  for (const auto& [reason, arrives] :
       {std::pair{std::string(5000, 'x'), std::string(256, 'x')},
        {std::string(256, 'x'), std::string(256, 'x')},
        {std::string(250, 'x') + euros, std::string(250, 'x') + euros.substr(0, 6)},
        {std::string(251, 'x') + euros, std::string(251, 'x') + euros.substr(0, 3)}}) {
    ConnectionPair pair(1);
    ASSERT_TRUE(pair.establish());
    pair.close(0, {StatusCode::kTimeout, reason});
    ASSERT_TRUE(pair.run_until([&] { return pair.end(1).downs == 1; }));
    EXPECT_EQ(pair.at(1).status().code(), StatusCode::kTimeout);
    EXPECT_EQ(pair.at(1).status().message(), arrives);
  }
}

// An example is the report of a rank which learned that all others have left.
TEST(Close, AReportThatSomebodyLeftIsNotLeaving) {
  ConnectionPair pair(1);
  ASSERT_TRUE(pair.establish());
  pair.close(0, {StatusCode::kPeerLeft, "all others have left"});
  ASSERT_TRUE(pair.run_until([&] { return pair.end(1).downs == 1; }));
  EXPECT_FALSE(LeftInGoodOrder(pair.at(1).status()));
  EXPECT_EQ(pair.at(1).status().reporter(), pair.at(0).link().local);
}

TEST(Close, BothSidesAtOnceUnderLoss) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    ConnectionPair pair(seed, ChannelFaults::Everything(0.3));
    ASSERT_TRUE(pair.establish());
    const bool abort = seed % 2 == 0;
    const Status why = abort ? Status(StatusCode::kAborted, "stop") : Status();
    pair.close(0, why);
    if (seed % 3 == 0) pair.run_for(microseconds(120));
    pair.close(1, why);
    ASSERT_TRUE(pair.run_until([&] { return pair.at(0).finished() && pair.at(1).finished(); },
                               milliseconds(2100)))
        << seed;
    EXPECT_EQ(pair.end(0).path.congestion->bytes_in_flight(), 0u);
    EXPECT_EQ(pair.end(1).path.congestion->bytes_in_flight(), 0u);
    EXPECT_EQ(pair.at(0).next_deadline(), kNever);
  }
}

TEST(Close, WrittenComesBeforeDownEvenIfItsAcknowledgementWasLost) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    ConnectionPair pair(seed, ChannelFaults::Everything(0.3));
    auto source = TestBytes(5000, 1);
    std::vector<std::byte> target(source.size());
    ASSERT_TRUE(pair.at(0).write(pair.at(1).expose(SliceOf(target), 1), SliceOf(source), 1));
    ASSERT_TRUE(pair.run_until([&] { return pair.end(1).landed.size() == 1; }));
    pair.close(1);
    ASSERT_TRUE(pair.run_until([&] { return pair.end(0).downs == 1; }));
    ASSERT_EQ(pair.end(0).written.size(), 1u) << seed;
  }
}

TEST(Close, TowardsASilentPeerEndsAtTheCloseTimeout) {
  ConnectionPair pair(1);
  ASSERT_TRUE(pair.establish());
  pair.run_for(seconds(1));
  pair.end(0).faults.loss = 1;
  const Instant start = pair.now;
  pair.close(0);
  ASSERT_TRUE(pair.run_until([&] { return pair.at(0).finished(); }));
  EXPECT_EQ(pair.now - start, seconds(1));
}

TEST(Close, AcceptedFramesOutliveAnOutageThatThePeerSurvives) {
  ConnectionPair pair(1);
  ASSERT_TRUE(pair.establish());
  pair.run_for(seconds(1));
  for (ChannelFaults* faults : {&pair.end(0).faults, &pair.end(1).faults}) {
    faults->dark_from = pair.now;
    faults->dark_until = pair.now + seconds(8);
  }
  ASSERT_TRUE(pair.at(0).send_frame(TestBytes(100, 1)));
  pair.close(0);
  ASSERT_TRUE(pair.run_until([&] { return pair.end(1).downs == 1; }));
  EXPECT_EQ(pair.end(1).frames.size(), 1u);
  EXPECT_EQ(pair.at(1).status().code(), StatusCode::kPeerLeft);
}

TEST(Close, AcceptedFramesLingerNoLongerThanASilentPeerIsWaitedFor) {
  for (const bool opened : {true, false}) {
    ConnectionPair pair(1, {}, {}, opened);
    ASSERT_EQ(opened && pair.establish(), opened);
    pair.run_for(seconds(1));
    pair.end(0).faults.loss = 1;
    const Instant start = pair.now;
    ASSERT_TRUE(pair.at(0).send_frame(TestBytes(100, 1)));
    pair.close(0);
    ASSERT_TRUE(pair.run_until([&] { return pair.at(0).finished(); }));
    EXPECT_LE(pair.now - start, seconds(10));
  }
}

TEST(Close, TowardsAPeerThatIsGoneEndsWithItsReset) {
  ConnectionPair pair(1);
  ASSERT_TRUE(pair.establish());
  pair.run_for(seconds(1));
  pair.destroy(1);
  pair.close(0);
  ASSERT_TRUE(pair.run_until([&] { return pair.at(0).finished(); }, milliseconds(1)));
}

TEST(Close, AfterDownIsFinishedAtOnce) {
  ConnectionPair pair(1);
  ASSERT_TRUE(pair.establish());
  pair.at(0).on_reset(pair.now);
  ASSERT_TRUE(pair.run_until([&] { return pair.end(0).downs == 1; }));
  EXPECT_TRUE(pair.at(0).send_frame(TestBytes(1, 1)));  // a no-op
  pair.close(0);
  EXPECT_TRUE(pair.at(0).finished());
}

// When close() returns, all lent memory is the caller's again, and the caller may unmap it.
TEST(Close, NothingIsReadFromOrWrittenToLentMemoryAfterwards) {
  for (int closing_side = 0; closing_side < 2; ++closing_side) {
    for (int aborting = 0; aborting < 2; ++aborting) {
      ConnectionPair pair(3, ChannelFaults::Everything(0.1));
      ASSERT_TRUE(pair.establish());
      auto source = std::make_unique<std::vector<std::byte>>(TestBytes(2000000, 1));
      auto target = std::make_unique<std::vector<std::byte>>(source->size());
      const auto remote = pair.at(1).expose(SliceOf(*target), 1);
      ASSERT_TRUE(pair.at(0).write(remote, SliceOf(*source), 1));
      pair.run_for(microseconds(300));
      ASSERT_TRUE(pair.end(0).written.empty());
      pair.close(closing_side, aborting ? Status(StatusCode::kAborted, "stop") : Status());
      // The memory is freed, so a sanitizer reports any access. Without one, the copy reveals
      // writes.
      if (closing_side == 0) source.reset();
      const std::vector<std::byte> before = *target;
      if (closing_side == 1) {
        pair.run_for(seconds(3));
        EXPECT_TRUE(before == *target);
        target.reset();
      }
      pair.run_for(seconds(3));
      EXPECT_EQ(pair.end(1 - closing_side).downs, 1);
    }
  }
}

TEST(Down, LeavesExposedMemoryAlone) {
  ConnectionPair pair(3);
  ASSERT_TRUE(pair.establish());
  auto source = TestBytes(2000000, 1);
  auto target = std::make_unique<std::vector<std::byte>>(source.size());
  ASSERT_TRUE(pair.at(0).write(pair.at(1).expose(SliceOf(*target), 1), SliceOf(source), 1));
  pair.run_for(microseconds(300));
  pair.at(1).on_reset(pair.now);
  EXPECT_TRUE(pair.at(1).down());
  target.reset();
  pair.run_for(seconds(1));
  EXPECT_EQ(pair.end(1).landed.size(), 0u);
}

}  // namespace
}  // namespace rocecoll
