// SPDX-License-Identifier: Apache-2.0
// Opening, closing and death of links, and what becomes of lent memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "base/random.h"
#include "conformance/exchange.h"
#include "conformance/worlds.h"

namespace rocecoll {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class Lifecycle : public Conformance {};
INSTANTIATE_TEST_SUITE_P(All, Lifecycle, testing::ValuesIn(AllWorlds()), NameOf);

TEST_P(Lifecycle, OneSideMayOpenLater) {
  const auto world = make(2);
  Link* a = world->open(0, 1);
  ASSERT_TRUE(a->send_frame(Text("early")));
  world->run_for(world->long_time());
  EXPECT_FALSE(world->is_down(a));
  Link* b = world->open(1, 0);
  ASSERT_TRUE(b->send_frame(Text("answer")));
  ASSERT_TRUE(world->run(
      [&] { return world->record(b).frames.size() == 1 && world->record(a).frames.size() == 1; }));
  EXPECT_EQ(world->record(b).frames[0], Text("early"));
  EXPECT_EQ(world->record(a).frames[0], Text("answer"));
  EXPECT_EQ(a->id(), Between(0, 1));
  EXPECT_EQ(b->id(), a->id().mirrored());
}

TEST_P(Lifecycle, AnOwnerLearnsThatAPeerOpensAndGetsWhatItSentBeforeItLeft) {
  const auto world = make(2);
  Link* a = world->open(0, 1);
  ASSERT_TRUE(a->send_frame(Text("last words")));
  a->close(Status());
  EXPECT_TRUE(world->lingering());
  ASSERT_TRUE(world->run([&] { return !(*world)[1].incoming.empty(); }));
  EXPECT_EQ((*world)[1].incoming[0], Between(1, 0));
  Link* b = world->open(1, 0);
  ASSERT_TRUE(world->run([&] { return world->is_down(b); }));
  EXPECT_EQ(world->record(b).frames, std::vector<Bytes>{Text("last words")});
  EXPECT_EQ(world->record(b).down[0].code(), StatusCode::kPeerLeft);
  EXPECT_TRUE(world->run([&] { return !world->lingering(); }));
}

TEST_P(Lifecycle, AnUnansweredOpenTimesOut) {
  const auto world = make(2);
  const Instant start = world->now();
  Link* a = world->open(0, 1, 1, milliseconds(300));
  ASSERT_TRUE(world->run([&] { return world->is_down(a); }));
  EXPECT_EQ(a->status().code(), StatusCode::kTimeout);
  EXPECT_FALSE(a->status().message().empty());
  EXPECT_GE(world->now() - start, milliseconds(300));
  a->close(Status());
  EXPECT_FALSE(world->lingering());
}

TEST_P(Lifecycle, OpeningTwiceOrAForeignAddressIsRefused) {
  const auto world = make(2);
  ASSERT_NE(world->open(0, 1), nullptr);
  Transport& transport = *(*world)[0].transport;
  const auto open = [&](const LinkId& id, const Address& peer) {
    return transport.open(id, peer, seconds(1), world->now()).status().code();
  };
  EXPECT_EQ(open(Between(0, 1), world->addresses[1]), StatusCode::kInvalidArgument);
  const std::array<std::byte, 11> foreign{std::byte{0xee}};
  EXPECT_EQ(open(Between(0, 2), Address(foreign, "elsewhere")), StatusCode::kInvalidArgument);
  EXPECT_EQ(open(Between(0, 2), Address()), StatusCode::kInvalidArgument);
}

TEST_P(Lifecycle, AnOrderlyCloseDeliversAcceptedFramesThenTellsThePeer) {
  const auto world = make(2);
  const auto [a, b] = world->connect(0, 1);
  std::vector<Bytes> frames;
  for (uint64_t i = 0; i < 60; ++i) {
    frames.push_back(RandomBytes(100 + i, i));
    ASSERT_TRUE(a->send_frame(frames.back()));
  }
  a->close(Status());
  ASSERT_TRUE(world->run([&, to = b] { return world->is_down(to); }));
  EXPECT_EQ(world->record(b).frames, frames);
  EXPECT_EQ(b->status().code(), StatusCode::kPeerLeft);
  EXPECT_TRUE(b->send_frame(Text("ignored")));  // a no-op on a link that is down
  b->close(Status());
  ASSERT_TRUE(world->run([&] { return !world->lingering(); }));
  EXPECT_TRUE(world->record(a).down.empty());
}

TEST_P(Lifecycle, OnceAllIsClosedNobodyIsWokenOften) {
  const auto world = make(2);
  const auto [a, b] = world->connect(0, 1);
  world->run_for(milliseconds(20));
  a->close(Status());
  ASSERT_TRUE(world->run([&, to = b] { return world->is_down(to); }));
  b->close(Status());
  EXPECT_TRUE(world->run([&] {
    return std::ranges::all_of(world->nodes, [&](const Node& node) {
      return node.transport->next_deadline() - milliseconds(100) >= world->now();
    });
  }));
  EXPECT_FALSE(world->lingering());
}

TEST_P(Lifecycle, AnAbortReachesThePeerWithItsMessage) {
  const auto world = make(2);
  const auto [a, b] = world->connect(0, 1);
  world->run_for(milliseconds(20));
  b->close(Status(StatusCode::kMismatch, "rank 1 gave up"));
  ASSERT_TRUE(world->run([&, from = a] { return world->is_down(from); }));
  EXPECT_EQ(a->status().code(), StatusCode::kMismatch);
  EXPECT_EQ(a->status().reporter(), 1u);
  EXPECT_EQ(a->status().message(), "rank 1 gave up");
  a->close(Status());
  EXPECT_TRUE(world->run([&] { return !world->lingering(); }));
}

TEST_P(Lifecycle, BothMayCloseAtOnce) {
  const auto world = make(2);
  const auto [a, b] = world->connect(0, 1);
  ASSERT_TRUE(a->send_frame(Text("x")));
  ASSERT_TRUE(world->run([&, to = b] { return world->record(to).frames.size() == 1; }));
  a->close(Status());
  b->close(Status());
  ASSERT_TRUE(world->run([&] { return !world->lingering(); }));
  EXPECT_TRUE(world->record(a).down.empty());
  EXPECT_TRUE(world->record(b).down.empty());
}

TEST_P(Lifecycle, AClosedLinkIsNeverNamedByALaterPoll) {
  const auto world = make(2);
  const auto [a, b] = world->connect(0, 1);
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(a->send_frame(Text("frame")));
  // A poll takes fewer events than there are frames: others wait when the link is closed.
  ASSERT_TRUE(world->run([&, to = b] { return !world->record(to).frames.empty(); }));
  const size_t seen = world->record(b).frames.size();
  ASSERT_LT(seen, 50u);
  b->close(Status());
  world->run_for(world->long_time());
  EXPECT_EQ(world->record(b).frames.size(), seen);
  EXPECT_TRUE(world->record(b).down.empty());
}

// At many points of a large write the reader of its source leaves: the source is not read again.
TEST_P(Lifecycle, NothingIsReadAfterClose) {
  for (const int delay_us : {0, 5, 20, 60, 200, 1000}) {
    const auto world = make(2);
    const auto [a, b] = world->connect(0, 1);
    world->run_for(milliseconds(20));
    RandomWrite write(4 << 20, 1);
    const Bytes original = write.source;
    ASSERT_TRUE(write.start(a, b, 1));
    world->run_for(std::chrono::microseconds(delay_us));
    a->close(Status(StatusCode::kAborted, "no more"));
    std::fill(write.source.begin(), write.source.end(), std::byte{0xee});
    world->run_for(world->long_time());
    for (size_t i = 0; i < original.size(); ++i) {
      ASSERT_TRUE(write.target[i] == original[i] || write.target[i] == std::byte{0})
          << "byte " << i << " was read after close, " << delay_us << " us after the write";
    }
  }
}

// The same for the one who exposed the memory: nothing lands in it any more.
TEST_P(Lifecycle, NothingLandsAfterClose) {
  for (const int delay_us : {0, 5, 20, 60, 200, 1000}) {
    for (const bool orderly : {false, true}) {
      const auto world = make(2);
      const auto [a, b] = world->connect(0, 1);
      world->run_for(milliseconds(20));
      RandomWrite write(4 << 20, 1);
      ASSERT_TRUE(write.start(a, b, 1));
      world->run_for(std::chrono::microseconds(delay_us));
      b->close(orderly ? Status() : Status(StatusCode::kAborted, "no more"));
      write.target.assign(write.target.size(), std::byte{0xee});
      world->run_for(world->long_time());
      EXPECT_TRUE(write.target == Bytes(write.target.size(), std::byte{0xee}))
          << "orderly " << orderly << ", " << delay_us << " us after the write";
    }
  }
}

// Whatever goes wrong meanwhile, and in whatever state the link is: whoever closes has its memory.
void CloseAtAnyMoment(const WorldKind& kind, uint64_t seed) {
  SCOPED_TRACE(Replay(seed));
  Random random(seed);
  const auto world = kind.make({.nodes = 2, .tight = seed % 4 == 0, .seed = seed});
  const auto [a, b] = world->connect(0, 1);
  if (random.chance(0.8)) world->run_for(milliseconds(20));
  RandomWrite write(1 + random.below(3 << 20), seed);
  const Bytes original = write.source;
  ASSERT_TRUE(write.start(a, b, 1));
  const uint64_t disturbances = random.below(4);
  for (uint32_t i = 0; i < disturbances; ++i) {
    world->run_for(std::chrono::microseconds(uint64_t{1} << random.below(12)));
    world->disturb(i);
  }
  world->run_for(std::chrono::microseconds(uint64_t{1} << random.below(12)));
  const bool reader = random.chance(0.5);
  (reader ? a : b)->close(random.chance(0.5) ? Status() : Status(StatusCode::kAborted, "enough"));
  std::ranges::fill(reader ? write.source : write.target, std::byte{0xee});
  world->run_for(world->long_time());
  if (!reader) {
    EXPECT_TRUE(write.target == Bytes(write.target.size(), std::byte{0xee}));
    return;
  }
  for (size_t i = 0; i < original.size(); ++i) {
    ASSERT_TRUE(write.target[i] == original[i] || write.target[i] == std::byte{0}) << i;
  }
}

TEST_P(Lifecycle, ClosedAtAnyMomentTheMemoryIsTheOwnersSlow) {
  if (!GetParam().seeded) GTEST_SKIP() << "in real time, seeds do not repeat anything";
  for (const uint64_t seed : SeedsOfRun(30, 1, 151)) {
    CloseAtAnyMoment(GetParam(), seed);
    if (HasFailure()) return;
  }
}

TEST_P(Lifecycle, AVanishedPeerIsLostOnEachLinkOnce) {
  const auto world = make(3);
  const auto [a, to_a] = world->connect(0, 1, 1);
  const auto [other_group, to_other] = world->connect(0, 1, 2);
  const auto [c, back] = world->connect(0, 2);
  ASSERT_TRUE(a->send_frame(Text("x")));
  ASSERT_TRUE(world->run([&, to = to_a] { return world->record(to).frames.size() == 1; }));
  RandomWrite write(100000, 1);
  ASSERT_TRUE(write.start(other_group, to_other, 1));
  world->kill(1);
  ASSERT_TRUE(a->send_frame(Text("y")));
  ASSERT_TRUE(world->run(
      [&, one = a, other = other_group] { return world->is_down(one) && world->is_down(other); }));
  world->run_for(milliseconds(20));
  EXPECT_EQ(world->record(a).down.size(), 1u);
  EXPECT_EQ(a->status().code(), StatusCode::kPeerLost);
  EXPECT_EQ(other_group->status().code(), StatusCode::kPeerLost);
  EXPECT_FALSE(world->is_down(c));
  EXPECT_FALSE(world->is_down(back));
  a->close(Status());
  other_group->close(Status(StatusCode::kAborted, "rank 1 is lost"));
}

TEST_P(Lifecycle, NoticesNeedNoLink) {
  const auto world = make(2);
  const Bytes longest = RandomBytes(
      std::min(Transport::kMaxNoticeBytes, (*world)[0].transport->limits().max_frame_bytes), 1);
  const auto seen = [&](const Bytes& notice) {
    return std::ranges::count((*world)[1].notices, notice) > 0;
  };
  // Best effort: it is said until it is heard.
  ASSERT_TRUE(world->run([&] {
    if (!seen(Text("failed"))) (*world)[0].transport->notify(world->addresses[1], Text("failed"));
    if (!seen(longest)) (*world)[0].transport->notify(world->addresses[1], longest);
    return seen(Text("failed")) && seen(longest);
  }));
  EXPECT_TRUE((*world)[0].notices.empty());
}

// Groups come and go; each has links of its own.
TEST_P(Lifecycle, ManyLinksOneAfterTheOther) {
  const auto world = make(2);
  for (uint64_t group = 1; group <= 30; ++group) {
    const auto [a, b] = world->connect(0, 1, group);
    RandomWrite write(20000, group);
    ASSERT_TRUE(write.start(a, b, 1));
    ASSERT_TRUE(world->run([&, out = a, in = b] { return world->transferred(out, in, 1); }));
    EXPECT_EQ(write.source, write.target);
    a->close(group % 2 == 0 ? Status() : Status(StatusCode::kAborted, "enough"));
    b->close(Status());
  }
  EXPECT_TRUE(world->run([&] { return !world->lingering(); }));
}

}  // namespace
}  // namespace rocecoll
