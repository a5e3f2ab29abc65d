// SPDX-License-Identifier: Apache-2.0
// Links over several ports of a rank at once: what a port that fails carried goes over the others,
// without the control path, and comes back to it; nothing is lost, doubled or reordered.
#include <chrono>
#include <cstdint>
#include <string>

#include "base/random.h"
#include "rc/rc_flow.h"

namespace rocecoll {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

RcWorldOptions Options(size_t rails, int step = 0) {
  RcWorldOptions options;
  options.rails = rails;
  SetWires(options, 2e8);
  options.rc.queue_pairs_per_connection = 1 + step % 2;
  options.rc.first_number = FirstNumber(step);
  return options;
}

struct RailPair : BusyPair {
  explicit RailPair(const RcWorldOptions& options, size_t write_bytes = 200'000)
      : BusyPair(options, write_bytes) {}

  // The first node's queue pairs on that rail.
  size_t streams_on(size_t rail) { return fabric.queue_pairs(endpoint(0, rail)).size(); }
  // Whether that rail carries new bytes.
  bool carries(size_t rail) {
    const uint64_t before = fabric.bytes_sent(endpoint(0, rail));
    work_for(milliseconds(20));
    return fabric.bytes_sent(endpoint(0, rail)) > before + 100'000;
  }
  bool carry_all(size_t rails) {
    for (size_t rail = 0; rail < rails; ++rail) {
      if (!carries(rail)) return false;
    }
    return true;
  }
};

// Frames are some of the bytes, and keep to one rail.
Duration TimeOf(const RcWorldOptions& options) {
  Pair pair(options);
  EXPECT_TRUE(pair.run([&] { return pair.transports[0]->links_on_path() == 1; }));
  CheckedTraffic traffic(pair, 250'000, 32);
  const Instant begun = pair.now();
  traffic.start();
  EXPECT_TRUE(pair.run([&] { return traffic.done(); }));
  traffic.check();
  return pair.now() - begun;
}

TEST(RcRails, LargeWritesTakeAllOfThem) {
  const Duration one = TimeOf(Options(1));
  EXPECT_LT(TimeOf(Options(2)), one * 6 / 10);
  EXPECT_LT(TimeOf(Options(4)), one * 4 / 10);
}

TEST(RcRails, APairHasThoseThatBothOfThemHave) {
  for (const uint32_t fewer : {0u, 1u}) {
    SCOPED_TRACE(fewer);
    RcWorldOptions options = Options(3);
    options.with_one_rail = {fewer};
    RailPair pair(options);
    ASSERT_TRUE(pair.work_until([&] { return pair.on_path(); }, seconds(1)));
    EXPECT_TRUE(pair.carries(0));
    pair.settle();
    EXPECT_EQ(pair.fabric.bytes_sent(pair.endpoint(0, 1)), 0u);
    EXPECT_EQ(pair.fabric.bytes_sent(pair.endpoint(1, 1)), 0u);
  }
}

TEST(RcRails, APortThatGoesDownHandsItsPartToTheOthersAndGetsItBack) {
  for (int step = 0; step < 12; ++step) {
    SCOPED_TRACE(step);
    const size_t rails = 2 + step % 3;
    const size_t rail = step % rails;
    RailPair pair(Options(rails, step));
    ASSERT_TRUE(pair.work_until([&] { return pair.on_path(); }, seconds(1)));
    ASSERT_TRUE(pair.carry_all(rails));
    pair.run_for(microseconds(37 * step));
    RcWorld::log();
    pair.fabric.set_port(pair.endpoint(step % 2, rail), false);
    pair.work_for(milliseconds(50));
    EXPECT_TRUE(pair.on_path());
    EXPECT_EQ(pair.streams_on(rail), 0u);
    EXPECT_TRUE(pair.carries(rail == 0 ? 1 : 0));
    const auto log = RcWorld::log();
    EXPECT_TRUE(Contains(log, "port is down (port error event); what it carried goes over "));
    EXPECT_FALSE(Contains(log, "UDP"));
    pair.fabric.set_port(pair.endpoint(step % 2, rail), true);
    EXPECT_TRUE(pair.work_until([&] { return pair.streams_on(rail) > 0; }, milliseconds(1100)));
    EXPECT_TRUE(pair.carry_all(rails));
    pair.settle();
    EXPECT_TRUE(Contains(RcWorld::log(), " works again"));
  }
}

// The end whose port is back first asks for a generation with it. The other end may find its own
// port back at any moment of that generation.
TEST(RcRails, PortsOfBothEndsMayComeBackOneAfterTheOther) {
  for (int step = 0; step < 40; ++step) {
    SCOPED_TRACE(step);
    const size_t rail = step % 2;
    RcWorldOptions options = Options(2, step);
    options.wire.latency = milliseconds(1);
    RailPair pair(options);
    ASSERT_TRUE(pair.work_until([&] { return pair.on_path(); }, seconds(1)));
    for (const uint32_t node : {0u, 1u}) pair.fabric.set_port(pair.endpoint(node, rail), false);
    ASSERT_TRUE(pair.work_until([&] { return pair.streams_on(rail) == 0; }, seconds(1)));
    pair.run_for(seconds(2));
    const auto first = static_cast<uint32_t>(step / 2 % 2);
    pair.fabric.set_port(pair.endpoint(first, rail), true);
    pair.work_for(milliseconds(step / 4));
    pair.run_for(microseconds(step % 5 * 200));
    pair.fabric.set_port(pair.endpoint(1 - first, rail), true);
    pair.work_for(milliseconds(20));
    pair.run_for(milliseconds(1100));
    EXPECT_TRUE(pair.on_path());
    EXPECT_TRUE(pair.carry_all(2));
    pair.settle();
  }
}

// However often: the others go on, and the pair does not need the control path.
TEST(RcRails, APortThatFlapsAllTheTimeTakesOnlyItsOwnPart) {
  for (const uint32_t ends : {1u, 2u}) {
    SCOPED_TRACE(ends);
    RailPair pair(Options(2));
    ASSERT_TRUE(pair.work_until([&] { return pair.on_path(); }, seconds(1)));
    RcWorld::log();
    for (int flap = 0; flap < 20; ++flap) {
      for (const bool up : {false, true}) {
        for (uint32_t end = 0; end < ends; ++end) {
          pair.fabric.set_port(pair.endpoint(end, 1), up);
        }
        pair.work_for(milliseconds(20));
        EXPECT_TRUE(pair.on_path());
        pair.run_for(milliseconds(1500));
      }
    }
    EXPECT_TRUE(pair.carry_all(2));
    pair.settle();
    EXPECT_FALSE(Contains(RcWorld::log(), "UDP"));
  }
}

// No port tells of it: the silence does, and it is tried again later.
TEST(RcRails, ARailThatIsSilentIsLeftOutAndTriedAgain) {
  for (const size_t rail : {0, 1}) {
    SCOPED_TRACE(rail);
    RailPair pair(Options(2), 2'000'000);
    ASSERT_TRUE(pair.work_until([&] { return pair.on_path(); }, seconds(1)));
    RcWorld::log();
    pair.fabric.cut(pair.endpoint(0, rail), pair.endpoint(1, rail));
    pair.work_for(milliseconds(300));
    EXPECT_TRUE(pair.on_path());
    EXPECT_EQ(pair.streams_on(rail), 0u);
    EXPECT_FALSE(Contains(RcWorld::log(), "UDP"));
    // In vain, after five minutes, then with success.
    pair.run_for(minutes(5));
    EXPECT_TRUE(pair.work_until([&] { return pair.on_path(); }, seconds(10)));
    EXPECT_EQ(pair.streams_on(rail), 0u);
    pair.fabric.mend(pair.endpoint(0, rail), pair.endpoint(1, rail));
    pair.run_for(minutes(6));
    EXPECT_TRUE(pair.work_until([&] { return pair.streams_on(rail) > 0; }, seconds(10)));
    EXPECT_TRUE(pair.carry_all(2));
    pair.settle();
  }
}

// An attempt to have it again might fail, and the pair then has no other way.
TEST(RcRails, WithoutFailoverTheOthersCarryAndNothingIsTried) {
  RcWorldOptions options = Options(2);
  options.rc.failover = false;
  RailPair pair(options, 2'000'000);
  ASSERT_TRUE(pair.work_until([&] { return pair.on_path(); }, seconds(1)));
  pair.fabric.cut(pair.endpoint(0, 1), pair.endpoint(1, 1));
  pair.work_for(milliseconds(300));
  EXPECT_EQ(pair.streams_on(1), 0u);
  pair.run_for(minutes(11));
  pair.fabric.set_port(pair.endpoint(0, 1), false);
  pair.work_for(milliseconds(10));
  pair.fabric.set_port(pair.endpoint(0, 1), true);
  pair.work_for(seconds(3));
  EXPECT_TRUE(pair.carries(0));
  EXPECT_EQ(pair.streams_on(1), 0u);
  pair.settle();
}

TEST(RcRails, ARailWithoutARouteFromTheBeginningIsLeftOut) {
  RcWorldOptions options = Options(2);
  RailPair pair(options);
  pair.fabric.cut(pair.endpoint(0, 1), pair.endpoint(1, 1));
  ASSERT_TRUE(pair.work_until([&] { return pair.on_path(); }, seconds(10)));
  EXPECT_TRUE(pair.carries(0));
  EXPECT_EQ(pair.streams_on(1), 0u);
  pair.settle();
}

TEST(RcRails, WithoutAnyPortTheControlPathCarriesUntilOneIsBack) {
  RailPair pair(Options(2));
  ASSERT_TRUE(pair.work_until([&] { return pair.on_path(); }, seconds(1)));
  for (const size_t rail : {1, 0}) pair.fabric.set_port(pair.endpoint(0, rail), false);
  EXPECT_TRUE(pair.work_until([&] { return !pair.on_path(); }, seconds(1)));
  pair.work_for(seconds(3));
  pair.fabric.set_port(pair.endpoint(0, 1), true);
  EXPECT_TRUE(pair.work_until([&] { return pair.on_path(); }, milliseconds(1100)));
  EXPECT_TRUE(pair.carries(1));
  pair.fabric.set_port(pair.endpoint(0, 0), true);
  EXPECT_TRUE(pair.work_until([&] { return pair.streams_on(0) > 0; }, milliseconds(1100)));
  pair.settle();
}

// A device that is gone for good registers nothing any more; the others do.
TEST(RcRails, ADeviceThatHasDiedDoesNotKeepTheOthersFromRegisteringMemory) {
  RailPair pair(Options(2));
  ASSERT_TRUE(pair.work_until([&] { return pair.on_path(); }, seconds(1)));
  pair.fabric.set_port(pair.endpoint(0, 1), false);
  pair.fabric.refusals(pair.endpoint(0, 1)).registrations = true;
  pair.work_for(milliseconds(20));
  MemoryDomain& memory = pair.transports[0]->memory();
  const auto slab = memory.allocate(size_t{1} << 16);
  ASSERT_TRUE(slab.ok());
  EXPECT_TRUE(pair.on_path());
  EXPECT_TRUE(pair.carries(0));
  // It lacks what was registered meanwhile.
  pair.fabric.refusals(pair.endpoint(0, 1)).registrations = false;
  pair.fabric.set_port(pair.endpoint(0, 1), true);
  pair.work_for(seconds(2));
  EXPECT_EQ(pair.streams_on(1), 0u);
  EXPECT_TRUE(pair.on_path());
  pair.settle();
  memory.free(slab.value());
}

// Ports and routes of both ends come and go by chance.
TEST(RcRails, WhateverFailsWhenTrafficGoesOnInOrderSlow) {
  for (int step = 0; step < 12; ++step) {
    SCOPED_TRACE(step);
    Random random(static_cast<uint64_t>(step) + 1);
    const size_t rails = 2 + random.below(3);
    RcWorldOptions options = Options(rails, step);
    options.rdma.seed = static_cast<uint64_t>(step) + 1;
    SetWires(options);
    if (step % 4 == 3) options.wire.loss = 0.01;
    RailPair pair(options, 50'000 + random.below(500'000));
    pair.work_for(microseconds(random.below(20'000)));
    for (int event = 0; event < 20; ++event) {
      const auto rail = random.below(rails);
      const uint32_t at = pair.endpoint(static_cast<uint32_t>(random.below(2)), rail);
      const auto numbers = pair.fabric.queue_pairs(at);
      switch (random.below(6)) {
        case 0:
          pair.fabric.set_port(at, false);
          break;
        case 1:
        case 2:
          pair.fabric.set_port(at, true);
          break;
        case 3:
          pair.fabric.cut(pair.endpoint(0, rail), pair.endpoint(1, rail));
          break;
        case 4:
          pair.fabric.mend(pair.endpoint(0, rail), pair.endpoint(1, rail));
          break;
        default:
          if (!numbers.empty()) {
            pair.fabric.break_queue_pair(at, numbers[random.below(numbers.size())]);
          }
      }
      pair.work_for(microseconds(random.below(random.chance(0.1) ? 3'000'000 : 30'000)));
    }
    for (size_t rail = 0; rail < rails; ++rail) {
      for (const uint32_t node : {0u, 1u}) pair.fabric.set_port(pair.endpoint(node, rail), true);
      pair.fabric.mend(pair.endpoint(0, rail), pair.endpoint(1, rail));
    }
    EXPECT_TRUE(pair.work_until([&] { return pair.on_path(); }, minutes(2)));
    pair.settle();
  }
}

}  // namespace
}  // namespace rocecoll
