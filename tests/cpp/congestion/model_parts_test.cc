// SPDX-License-Identifier: Apache-2.0
// Tests each part of the model's controller separately.
#include <gtest/gtest.h>

#include <cmath>

#include "congestion/lone_sender.h"
#include "transport/datagram/congestion/catch_up.h"
#include "transport/datagram/congestion/contest.h"
#include "transport/datagram/congestion/delivery_rate.h"
#include "transport/datagram/congestion/flight_bound.h"
#include "transport/datagram/congestion/longer_path.h"
#include "transport/datagram/congestion/random_loss.h"
#include "transport/datagram/congestion/round_meter.h"

namespace rocecoll {
namespace {

TEST(CatchUp, GrowsUntilSomethingIsLostAndThenCarefully) {
  CatchUp catch_up;
  EXPECT_EQ(catch_up.bytes(), CatchUp::kLeast);
  catch_up.on_round(false, false, kPacketBytes);
  EXPECT_EQ(catch_up.bytes(), CatchUp::kLeast) << "grew although nobody was late";
  for (int i = 0; i < 10; ++i) catch_up.on_round(true, false, kPacketBytes);
  const uint64_t grown = catch_up.bytes();
  EXPECT_GT(grown, 8 * CatchUp::kLeast);
  const auto kept = static_cast<uint64_t>(static_cast<double>(grown) * kLossKept);
  catch_up.on_round(false, false, kPacketBytes);
  catch_up.on_round(false, true, kPacketBytes);
  EXPECT_EQ(catch_up.bytes(), kept) << "a loss shows a round after what has caused it";
  catch_up.on_round(true, false, kPacketBytes);
  EXPECT_EQ(catch_up.bytes(), kept + kPacketBytes);
  for (int i = 0; i < 4; ++i) catch_up.on_round(false, false, kPacketBytes);
  catch_up.on_round(false, true, kPacketBytes);
  EXPECT_EQ(catch_up.bytes(), kept + kPacketBytes) << "that loss was something else's";
  for (int i = 0; i < 100; ++i) catch_up.on_round(true, true, kPacketBytes);
  EXPECT_EQ(catch_up.bytes(), CatchUp::kLeast);
  for (int i = 0; i < 1'000'000; ++i) catch_up.on_round(true, false, kPacketBytes);
  EXPECT_LE(catch_up.bytes(), CatchUp::kMost);
}

// The rate of what went through a queue is the path's rate, once there is enough of it.
TEST(DeliveryRate, OfABucketIsWhatQueuesPass) {
  DeliveryRate rate;
  rate.take(500e6);
  for (size_t i = 0; i < DeliveryRate::kRounds - 1; ++i) rate.take_queued(125e6, true);
  EXPECT_EQ(rate.most(), 500e6);
  rate.take_queued(120e6, false);
  EXPECT_EQ(rate.most(), 500e6) << "bounded although nothing has rested";
  rate.take_queued(110e6, true);
  EXPECT_EQ(rate.most(), 125e6);
  EXPECT_EQ(rate.recent(), 125e6);
  for (size_t i = 0; i < DeliveryRate::kRounds; ++i) rate.take(100e6);
  EXPECT_EQ(rate.most(), 100e6);
}

TEST(FlightBound, HoldsWhatOverflowedAndGrowsAgain) {
  FlightBound bound;
  bound.on_sent(1'000'000);
  bound.end_round(false, kPacketBytes);
  EXPECT_TRUE(std::isinf(bound.held()));
  bound.on_sent(500'000);
  bound.end_round(true, kPacketBytes);
  EXPECT_EQ(bound.held(), 700'000) << "the round before made it overflow";
  bound.end_round(true, kPacketBytes);
  EXPECT_EQ(bound.held(), 700'000) << "cut twice for one overflow";
  for (int i = 0; i < 5; ++i) bound.end_round(false, kPacketBytes);
  EXPECT_EQ(bound.held(), 700'000) << "grew although less was in flight";
  for (int i = 0; i < 12; ++i) {
    bound.on_sent(static_cast<uint64_t>(bound.held()));
    bound.end_round(false, kPacketBytes);
  }
  EXPECT_GT(bound.held(), 1'000'000);
  for (int i = 0; i < 100; ++i) bound.end_round(true, kPacketBytes);
  EXPECT_EQ(bound.held(), 4 * kPacketBytes);
}

TEST(FlightBound, HasTriedTheMostOfRoundsThatAreOver) {
  FlightBound bound;
  bound.on_sent(10'000);
  EXPECT_TRUE(std::isinf(bound.tried()));
  bound.end_round(false, kPacketBytes);
  EXPECT_EQ(bound.tried(), 10'000);
  bound.on_sent(20'000);
  bound.on_sent(15'000);
  EXPECT_EQ(bound.tried(), 10'000) << "nothing of this round has come back yet";
  bound.end_round(false, kPacketBytes);
  bound.end_round(false, kPacketBytes);
  EXPECT_EQ(bound.tried(), 20'000) << "forgotten by a round that sent nothing";
}

TEST(FlightBound, ForgetsWhatOverflowedButNotWhatWasTried) {
  FlightBound bound;
  bound.on_sent(100'000);
  bound.end_round(true, kPacketBytes);
  EXPECT_EQ(bound.held(), 70'000);
  bound.on_sent(200'000);
  bound.forget_held();
  EXPECT_TRUE(std::isinf(bound.held()));
  EXPECT_EQ(bound.tried(), 200'000);
  EXPECT_EQ(bound.most(), 0);
}

// Trains of three packets, a millisecond apart, with a second between the trains.
TEST(RoundMeter, MeasuresTrainsWithoutTheTimeBetweenThem) {
  using std::chrono::milliseconds;
  using std::chrono::seconds;
  RoundMeter meter;
  Instant now = Instant{} + seconds(100);
  meter.begin(now);
  const auto arrive = [&](const SendStamp& stamp) {
    meter.on_acked(kPacketBytes, now, stamp);
    meter.complete(now);
    now += milliseconds(1);
  };
  for (int train = 0; train < 4; ++train) {
    meter.on_idle();
    for (int i = 0; i < 3; ++i) arrive(meter.stamp());
    now += seconds(1);
  }
  EXPECT_TRUE(meter.round().broken);
  EXPECT_EQ(meter.round().train_acked, 8 * kPacketBytes);
  EXPECT_EQ(meter.round().train_time, milliseconds(8));
  EXPECT_DOUBLE_EQ(meter.round().train_average(), 1e3 * kPacketBytes);
  // What comes after the first loss leaves a full queue, so it is no burst of a bucket.
  meter.on_lost(kPacketBytes);
  const SendStamp last = meter.stamp();
  now -= seconds(1);
  arrive(last);
  meter.on_lost(kPacketBytes);
  arrive(last);
  EXPECT_EQ(meter.round().train_acked, 2 * kPacketBytes);
  meter.begin(now);
  EXPECT_FALSE(meter.round().broken);
}

// The number of drained rounds after which a contest begins, up to 100; 0: never. `queued` says
// which rounds met a queue.
template <typename Queued>
int RoundsUntilContest(Contest& contest, Queued queued, bool beyond, int lost_in_round = 0) {
  for (int round = 1; round <= 100; ++round) {
    if (contest.begins(true, queued(round), beyond, round == lost_in_round)) return round;
  }
  return 0;
}

bool Always(int /*round*/) { return true; }

TEST(Contest, BeginsWhereOthersKeepAQueue) {
  const auto rounds_until = [](auto queued, bool beyond, int lost_in_round) {
    Contest contest;
    return RoundsUntilContest(contest, queued, beyond, lost_in_round);
  };
  EXPECT_EQ(rounds_until(Always, true, 0), 30);
  EXPECT_EQ(rounds_until(Always, false, 0), 0) << "what least windows make";
  EXPECT_EQ(rounds_until(Always, false, 50), 50);
  EXPECT_EQ(rounds_until(Always, true, 3), 30) << "a loss is no queue that stands";
  const auto mostly = [](int round) { return round % 5 != 0; };
  EXPECT_GT(rounds_until(mostly, true, 0), 30) << "runs empty when the others are busy";
  const auto by_turns = [](int round) { return round % 3 != 0; };
  EXPECT_EQ(rounds_until(by_turns, true, 0), 0) << "senders of ours";
  const auto seldom = [](int round) { return round % 4 == 0; };
  EXPECT_EQ(rounds_until(seldom, true, 0), 0) << "ours, when we are busy";
  EXPECT_EQ(rounds_until(seldom, true, 80), 0);
}

TEST(Contest, BeginsByRoundsThatAreDrained) {
  Contest contest;
  for (int round = 0; round < 100; ++round) {
    EXPECT_FALSE(contest.begins(false, true, true, true)) << "a queue that may be ours";
  }
}

constexpr auto kPacket = static_cast<double>(kPacketBytes);

TEST(Contest, IsCutOnceForAnOverflowAndGrowsAsTcp) {
  Contest contest;
  contest.begin(100 * kPacket);
  EXPECT_FALSE(contest.ends(true, true, kPacket));
  EXPECT_DOUBLE_EQ(contest.window(), 70 * kPacket);
  EXPECT_FALSE(contest.ends(true, true, kPacket));
  EXPECT_DOUBLE_EQ(contest.window(), 70 * kPacket) << "what was sent before the cut";
  EXPECT_FALSE(contest.ends(true, true, kPacket));
  EXPECT_DOUBLE_EQ(contest.window(), 49 * kPacket);
  EXPECT_FALSE(contest.ends(true, false, kPacket));
  EXPECT_FALSE(contest.ends(true, false, kPacket));
  EXPECT_DOUBLE_EQ(contest.window(), 50 * kPacket);
}

// The number of rounds after which a contest ends, each with the queue that `queued` says.
template <typename Queued>
int RoundsOfContest(Contest& contest, Queued queued) {
  contest.begin(10 * kPacket);
  int round = 1;
  while (!contest.ends(queued(round), false, kPacket)) ++round;
  return round;
}

TEST(Contest, OutlastsTheMomentAfterTheOthersWereCut) {
  Contest contest;
  EXPECT_EQ(RoundsOfContest(contest, [](int) { return false; }), 8);
  EXPECT_EQ(RoundsOfContest(contest, [](int round) { return round > 7; }), 400)
      << "nobody would ever see whether the others are still there";
  EXPECT_EQ(RoundsOfContest(contest, [](int round) { return round % 8 == 0; }), 400);
}

TEST(Contest, GoesOnWhereTheOthersAreStillThere) {
  Contest contest;
  EXPECT_EQ(RoundsUntilContest(contest, Always, true), 30);
  RoundsOfContest(contest, Always);
  const double before = contest.window();
  EXPECT_EQ(RoundsUntilContest(contest, Always, false), 3);
  contest.begin(kPacket);
  EXPECT_EQ(contest.window(), before) << "begins anew although it has just been there";
  RoundsOfContest(contest, Always);
  for (int i = 0; i < 14; ++i) contest.begins(true, false, false, false);
  EXPECT_EQ(RoundsUntilContest(contest, Always, true), 30);
  contest.begin(kPacket);
  EXPECT_EQ(contest.window(), kPacket);
}

// The number of rounds after which a path counts as longer, up to 100; 0: never.
template <typename Rtt>
int RoundsUntilLonger(Rtt rtt) {
  LongerPath path;
  Instant now = Instant{} + std::chrono::seconds(100);
  for (int round = 1; round <= 100; ++round) {
    now += std::chrono::milliseconds(20);
    const Duration least = rtt(round);
    if (path.on_round(now, least - std::chrono::milliseconds(1), least)) return round;
  }
  return 0;
}

TEST(LongerPath, HasRoundTripsThatStayTheSame) {
  using std::chrono::microseconds;
  using std::chrono::milliseconds;
  EXPECT_EQ(RoundsUntilLonger([](int) { return milliseconds(20); }), 31);
  EXPECT_EQ(RoundsUntilLonger([](int round) { return microseconds(20'000 + round % 7 * 20); }), 31);
  EXPECT_EQ(RoundsUntilLonger([](int) { return milliseconds(1); }), 0) << "no queue at all";
  EXPECT_EQ(RoundsUntilLonger([](int round) { return microseconds(20'000 + 12 * round); }), 0)
      << "what a packet of TCP more in each round trip makes at 1 Gbit/s";
  EXPECT_EQ(RoundsUntilLonger([](int round) { return milliseconds(round % 20 == 0 ? 1 : 20); }), 0);
}

TEST(LongerPath, IsTakenForOneOnceInAWhile) {
  LongerPath path;
  int found = 0;
  for (int round = 0; round < 1000; ++round) {  // 20 seconds
    const Instant now =
        Instant{} + std::chrono::seconds(100) + round * std::chrono::milliseconds(20);
    found += path.on_round(now, std::chrono::milliseconds(19), std::chrono::milliseconds(20));
  }
  EXPECT_EQ(found, 4);
}

TEST(LongerPath, LosesNothing) {
  LongerPath path;
  for (int round = 0; round < 1000; ++round) {
    const Instant now =
        Instant{} + std::chrono::seconds(100) + round * std::chrono::milliseconds(20);
    if (round % 20 == 0) path.on_loss();
    EXPECT_FALSE(path.on_round(now, std::chrono::milliseconds(19), std::chrono::milliseconds(20)));
  }
}

Round RoundOf(uint32_t acked_packets, uint32_t lost_packets) {
  Round round;
  round.acked = acked_packets * kPacketBytes;
  round.lost = lost_packets * kPacketBytes;
  round.losses = lost_packets;
  return round;
}

TEST(RandomLoss, IsWhatGetsLostWithoutAQueue) {
  RandomLoss loss;
  const Round round = RoundOf(95, 5);
  EXPECT_TRUE(loss.overflowed(round));
  for (int i = 0; i < 50; ++i) {
    loss.count_round(true);
    loss.learn(round, 10, kPacketBytes);
  }
  EXPECT_EQ(loss.share(), 0) << "what a queue may have lost";
  for (int i = 0; i < 50; ++i) {
    loss.count_round(false);
    loss.learn(round, 10, kPacketBytes);
  }
  EXPECT_NEAR(loss.share(), 0.05, 0.005);
  EXPECT_FALSE(loss.overflowed(round));
  EXPECT_TRUE(loss.overflowed(RoundOf(95, 20)));
}

TEST(RandomLoss, IsNotWhatSlowerRoundsDoNotLose) {
  RandomLoss loss;
  const Round round = RoundOf(90, 10);
  const auto learn = [&] {
    for (int i = 0; i < 50; ++i) {
      loss.count_round(false);
      loss.learn(round, 10, kPacketBytes);
    }
  };
  EXPECT_FALSE(loss.doubtful());
  learn();
  EXPECT_TRUE(loss.doubtful());
  loss.learn_slower(round, kPacketBytes);
  loss.learn_slower(round, kPacketBytes);
  learn();
  EXPECT_NEAR(loss.share(), 0.1, 0.01) << "chance does not mind how fast one sends";
  const Round slower = RoundOf(100, 0);
  loss.learn_slower(slower, kPacketBytes);
  EXPECT_NEAR(loss.share(), 0.1, 0.01) << "too few packets";
  loss.learn_slower(slower, kPacketBytes);
  learn();
  EXPECT_NEAR(loss.share(), 0.01, 0.001);
  EXPECT_TRUE(loss.overflowed(round));
  EXPECT_TRUE(loss.doubtful()) << "it may become random later";
  loss.learn_slower(round, kPacketBytes);
  loss.learn_slower(round, kPacketBytes);
  learn();
  EXPECT_NEAR(loss.share(), 0.1, 0.01);
}

}  // namespace
}  // namespace rocecoll
