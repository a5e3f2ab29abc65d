// SPDX-License-Identifier: Apache-2.0
// An RC link that had to leave RoCE comes back to it, and nothing is lost, doubled or reordered.
#include <chrono>
#include <functional>

#include "rc/rc_flow.h"
#include "transport/fast_paths/switching/switching_retry.h"

namespace rocecoll {
namespace {

using std::chrono::hours;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

// Long enough for the attempt that is due last.
constexpr Duration kReturnTime = SwitchingRetry::kLongestDelay * 2;

// What a flap takes away.
enum class Outage : int { kFirstPort, kSecondPort, kBothPorts, kSilence };
constexpr int kOutages = 4;

void SetOutage(Pair& pair, Outage outage, bool out) {
  if (outage == Outage::kFirstPort || outage == Outage::kBothPorts) pair.fabric.set_port(0, !out);
  if (outage == Outage::kSecondPort || outage == Outage::kBothPorts) pair.fabric.set_port(1, !out);
  if (outage != Outage::kSilence) return;
  if (out) {
    pair.fabric.cut(0, 1);
  } else {
    pair.fabric.mend(0, 1);
  }
}

RcWorldOptions Options(int step) {
  RcWorldOptions options;
  SetWires(options);
  if (step % 3 == 2) options.wire.loss = 0.01;
  options.rc.queue_pairs_per_connection = 1 + step % 3;
  options.rc.first_number = FirstNumber(step);
  return options;
}

TEST(RcReturn, AFlapUnderTrafficInBothDirectionsSlow) {
  for (int step = 0; step < 16; ++step) {
    SCOPED_TRACE(step);
    const size_t write_bytes = step % 2 == 0 ? 100'000 : 5'000'000;
    BusyPair pair(Options(step), write_bytes);
    ASSERT_TRUE(pair.work_until([&] { return pair.on_path(); }, seconds(1)));
    pair.work_for(milliseconds(10));
    pair.run_for(microseconds(37 * step));
    const auto outage = static_cast<Outage>(step % kOutages);
    SetOutage(pair, outage, true);
    const uint64_t before = pair.flows[0].received();
    pair.work_for(seconds(2));
    EXPECT_FALSE(pair.on_path());
    EXPECT_GT(pair.flows[0].received(), before + 100) << "the control path carries";
    SetOutage(pair, outage, false);
    // A port tells that it is up; a path that was silent is tried within twice the time.
    const Duration limit = outage == Outage::kSilence ? seconds(5) : milliseconds(1100);
    EXPECT_TRUE(pair.work_until([&] { return pair.on_path(); }, limit));
    pair.work_for(milliseconds(50));
    EXPECT_TRUE(pair.on_path());
    pair.settle();
  }
}

// Nothing that is said of it fills a log.
TEST(RcReturn, AHundredFlapsSlow) {
  BusyPair pair(Options(0), 50'000);
  ASSERT_TRUE(pair.work_until([&] { return pair.on_path(); }, seconds(1)));
  while (TakeLogEntry(Duration{0})) {
  }
  size_t falls = 0;
  size_t returns = 0;
  size_t others = 0;
  for (int flap = 0; flap < 100; ++flap) {
    SCOPED_TRACE(flap);
    const auto outage = static_cast<Outage>(flap % 3);
    SetOutage(pair, outage, true);
    ASSERT_TRUE(pair.work_until([&] { return !pair.on_path(); }, seconds(1)));
    pair.work_for(microseconds(300 + 7919 * flap));
    SetOutage(pair, outage, false);
    // It is tried each second, and then what is under way over UDP comes first.
    ASSERT_TRUE(pair.work_until([&] { return pair.on_path(); }, milliseconds(1300)));
    for (const std::string& line : RcWorld::log()) {
      const bool fell = line.find("): goes on over UDP: ") != line.npos;
      const bool back = line.find("): again RoCE, reliable connection over ") != line.npos;
      ++(fell ? falls : back ? returns : others);
    }
  }
  pair.settle();
  // 1, 2, 4, 8, 16, 32, 64, at each end.
  EXPECT_EQ(falls, 14u);
  EXPECT_EQ(returns, 14u);
  EXPECT_LE(others, 60u) << "of two devices, and reasons that differ";
}

TEST(RcReturn, AFlapDuringTheHandshakeSlow) {
  for (int step = 0; step < 16; ++step) {
    SCOPED_TRACE(step);
    RcWorldOptions options = Options(step);
    options.wire.latency = milliseconds(1);
    BusyPair pair(options);
    pair.run_for(microseconds(100) * step);
    const auto outage = static_cast<Outage>(step % kOutages);
    SetOutage(pair, outage, true);
    pair.work_for(seconds(2));
    SetOutage(pair, outage, false);
    EXPECT_TRUE(pair.work_until([&] { return pair.on_path(); }, seconds(6)));
    pair.settle();
  }
}

// An attempt to return fails or not at any of its moments.
TEST(RcReturn, AFlapDuringTheReturnSlow) {
  for (int step = 0; step < 24; ++step) {
    SCOPED_TRACE(step);
    RcWorldOptions options = Options(step);
    options.wire.latency = milliseconds(1);
    BusyPair pair(options);
    ASSERT_TRUE(pair.work_until([&] { return pair.on_path(); }, seconds(1)));
    pair.fabric.set_port(0, false);
    pair.work_for(seconds(2));
    pair.fabric.set_port(0, true);
    pair.work_until([] { return false; }, milliseconds(2));
    pair.run_for(microseconds(150) * step);
    const auto outage = static_cast<Outage>(step % kOutages);
    SetOutage(pair, outage, true);
    pair.work_for(seconds(1));
    SetOutage(pair, outage, false);
    EXPECT_TRUE(pair.work_until([&] { return pair.on_path(); }, kReturnTime));
    pair.settle();
  }
}

TEST(RcReturn, WhateverHappensSlow) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    SCOPED_TRACE(seed);
    RcWorldOptions options = Options(static_cast<int>(seed));
    options.rdma.seed = seed;
    BusyPair pair(options);
    for (uint32_t i = 0; i < 40; ++i) {
      pair.disturb(i);
      pair.work_for(microseconds((seed * 7919 + i * 104729) % 900'000));
    }
    for (const uint32_t end : {0u, 1u}) {
      pair.fabric.refusals(end) = {};
      pair.fabric.set_port(end, true);
    }
    pair.fabric.mend(0, 1);
    EXPECT_TRUE(pair.work_until([&] { return pair.on_path(); }, kReturnTime));
    pair.settle();
  }
}

TEST(RcReturn, WhileBothDevicesAreDownNothingIsTried) {
  Pair pair;
  ASSERT_TRUE(pair.run([&] { return pair.transports[0]->links_on_path() == 1; }));
  SetOutage(pair, Outage::kBothPorts, true);
  pair.run_for(seconds(10));
  const uint32_t made = pair.fabric.queue_pairs_made();
  const auto sent = [&] { return pair.a->path_stats().front().traffic.packets_sent; };
  const uint64_t before = sent();
  pair.run_for(seconds(60));
  const uint64_t in_a_minute = sent() - before;
  pair.run_for(hours(24) - seconds(70));
  EXPECT_LE(sent() - before, in_a_minute * 1441);
  EXPECT_EQ(pair.fabric.queue_pairs_made(), made);
}

// The end whose device works is told that it will hear of the other one.
TEST(RcReturn, WhileOneDeviceIsDownNothingIsTried) {
  for (const auto outage : {Outage::kFirstPort, Outage::kSecondPort}) {
    Pair pair;
    ASSERT_TRUE(pair.run([&] { return pair.transports[0]->links_on_path() == 1; }));
    SetOutage(pair, outage, true);
    pair.run_for(seconds(10));
    const uint32_t made = pair.fabric.queue_pairs_made();
    pair.run_for(hours(24));
    EXPECT_EQ(pair.fabric.queue_pairs_made(), made);
    SetOutage(pair, outage, false);
    EXPECT_TRUE(pair.run([&] { return pair.transports[0]->links_on_path() == 1; }, seconds(2)));
  }
}

// Both devices work, but nothing gets through: a day of it, or a week.
TEST(RcReturn, AttemptsAreBounded) {
  Pair pair;
  ASSERT_TRUE(pair.run([&] { return pair.transports[0]->links_on_path() == 1; }));
  pair.fabric.cut(0, 1);
  ASSERT_TRUE(pair.a->send_frame(Text("x")));
  pair.run_for(seconds(30));
  EXPECT_EQ(pair.transports[0]->links_on_path(), 0u);
  while (TakeLogEntry(Duration{0})) {
  }
  const uint32_t made = pair.fabric.queue_pairs_made();
  const Duration time = hours(24) * (IsNightly() ? 7 : 1);
  pair.run_for(time);
  const auto attempts = (pair.fabric.queue_pairs_made() - made) / 2;  // one at each end
  EXPECT_GE(attempts, time / (SwitchingRetry::kLongestDelay * 2));
  EXPECT_LE(attempts, time / (SwitchingRetry::kLongestDelay / 2));
  EXPECT_LE(RcWorld::log().size(), 4u);
  pair.fabric.mend(0, 1);
  EXPECT_TRUE(pair.run([&] { return pair.transports[0]->links_on_path() == 1; }, kReturnTime));
}

TEST(RcReturn, APeerWithoutADeviceIsNotAskedAgain) {
  for (const uint32_t without : {0u, 1u}) {
    RcWorldOptions options;
    options.without_device = {without};
    Pair pair(options);
    pair.run_for(seconds(10));
    const uint32_t made = pair.fabric.queue_pairs_made();
    SetOutage(pair, Outage::kBothPorts, true);
    pair.run_for(seconds(10));
    SetOutage(pair, Outage::kBothPorts, false);
    pair.run_for(hours(1));
    EXPECT_EQ(pair.fabric.queue_pairs_made(), made);
  }
}

TEST(RcReturn, APeerThatDiesOnTheControlPathIsNamed) {
  Pair pair;
  ASSERT_TRUE(pair.run([&] { return pair.transports[0]->links_on_path() == 1; }));
  pair.fabric.cut(0, 1);
  ASSERT_TRUE(pair.a->send_frame(Text("x")));
  ASSERT_TRUE(pair.run([&] { return pair.transports[0]->links_on_path() == 0; }));
  for (const Duration after : {milliseconds(0), milliseconds(900), milliseconds(1300)}) {
    pair.run_for(after);
  }
  pair.fabric.kill(1);
  pair.kill(1);
  EXPECT_TRUE(pair.run([&] { return !pair.at_a().down.empty(); }, seconds(12)));
  EXPECT_EQ(pair.at_a().down.front().code(), StatusCode::kPeerLost);
  pair.run_for(seconds(100));
}

// At any moment of an attempt: what was accepted arrives, and nothing is left behind.
TEST(RcReturn, LeavingDuringTheReturn) {
  for (int step = 0; step < 100; ++step) {
    SCOPED_TRACE(step);
    RcWorldOptions options;
    options.wire.latency = milliseconds(1);
    Pair pair(options);
    ASSERT_TRUE(pair.run([&] { return pair.transports[0]->links_on_path() == 1; }));
    pair.fabric.set_port(step % 2, false);
    pair.run_for(seconds(2));
    pair.fabric.set_port(step % 2, true);
    pair.run_for(microseconds(100) * step);
    for (int i = 0; i < 30; ++i) ASSERT_TRUE(pair.a->send_frame(RandomBytes(3000, i)));
    if (step % 3 == 0) pair.run_for(microseconds(700));
    pair.a->close({});
    EXPECT_TRUE(pair.run([&] { return !pair.at_b().down.empty(); }));
    EXPECT_EQ(pair.at_b().down.front().code(), StatusCode::kPeerLeft);
    ASSERT_EQ(pair.at_b().frames.size(), 30u);
    for (int i = 0; i < 30; ++i) EXPECT_EQ(pair.at_b().frames[i], RandomBytes(3000, i));
    pair.b->close({});
    EXPECT_TRUE(pair.run([&] { return !pair.lingering(); }));
    EXPECT_TRUE(pair.fabric.queue_pairs(0).empty() && pair.fabric.queue_pairs(1).empty());
  }
}

// What a link has lent is its owner's again when close() returns, whichever path had it.
TEST(RcReturn, NothingTouchesMemoryAfterClose) {
  for (int step = 0; step < 60; ++step) {
    SCOPED_TRACE(step);
    RcWorldOptions options = Options(0);
    options.wire.bytes_per_second = 1e7;
    Pair pair(options);
    ASSERT_TRUE(pair.run([&] { return pair.transports[0]->links_on_path() == 1; }));
    pair.fabric.set_port(0, false);
    pair.run_for(seconds(2));
    const Bytes source = RandomBytes(1'000'000, 1);  // 100 ms over the control path
    Bytes target(source.size());
    Bytes copy = source;
    const RemoteSlice slice = pair.b->expose({target.data(), target.size(), kUnregistered}, 1);
    ASSERT_TRUE(pair.a->write(slice, {copy.data(), copy.size(), kUnregistered}, 1));
    pair.fabric.set_port(0, true);
    pair.run_for(microseconds(400) * step);
    ASSERT_TRUE(pair.at_b().landed.empty());
    Link* closing = step % 2 == 0 ? pair.a : pair.b;
    closing->close(step % 4 < 2 ? Status() : Status(StatusCode::kAborted, "enough"));
    if (closing == pair.a) std::ranges::fill(copy, std::byte{9});
    if (closing == pair.b) std::ranges::fill(target, std::byte{7});
    const Bytes then = target;
    pair.run_for(seconds(3));
    if (closing == pair.b) {
      EXPECT_TRUE(target == then);
    } else {
      EXPECT_TRUE(pair.at_b().landed.empty());
      EXPECT_FALSE(pair.at_b().down.empty());
      const auto nine = std::ranges::search_n(target, 100, std::byte{9});
      EXPECT_TRUE(nine.empty()) << "read after close()";
    }
  }
}

}  // namespace
}  // namespace rocecoll
