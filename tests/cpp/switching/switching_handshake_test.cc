// SPDX-License-Identifier: Apache-2.0
// The handshake of two ends, without links and paths: what they say to each other, in any order of
// arrival, and what each has its link do.
#include "transport/fast_paths/switching/switching_handshake.h"

#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"

namespace rocecoll {
namespace {

using Phase = SwitchingHandshake::Phase;
using Step = SwitchingHandshake::Step;
using Steps = std::vector<Step>;

const SwitchingWords kHandshakeWords{
    .path = "memory", .link = "end", .not_exposed = "", .control = "the network"};

// One end, whose link does each step at once but for those that a path takes time for.
struct HandshakeEnd {
  SwitchingHandshake handshake{kHandshakeWords};
  std::deque<WireBytes> said;
  Steps steps;
  bool has_path = true;
  bool connects = true;
  bool proves = true;

  Phase phase() const { return handshake.phase(); }
  const std::string& reason() const { return handshake.reason(); }
  void offer() {
    SwitchingOffer ours;
    if (has_path) {
      ours.ends.credits = 1;
      ours.ends.addresses.emplace_back(std::as_bytes(std::span("end")), "end");
    } else {
      ours.reason = "no device";
    }
    follow(handshake.offer(ours));
  }
  void begin() {
    handshake.begin();
    offer();
  }
  void break_path() {
    handshake.end("broken");
    begin();
  }
  void go_on() {
    if (phase() == Phase::kConnecting || phase() == Phase::kConnected) {
      if (connects || phase() == Phase::kConnected) follow(handshake.on_connected());
    }
    if (phase() == Phase::kProbing && proves) follow(handshake.on_proved());
  }
  void follow(Step step) {
    for (WireBytes& frame : handshake.take_frames()) said.push_back(std::move(frame));
    if (step != Step::kNone) steps.push_back(step);
    switch (step) {
      case Step::kNone:
        return;
      case Step::kMeet:
        return follow(handshake.meet());
      case Step::kConnect:
      case Step::kProbe:
        return go_on();
      case Step::kCarry:
        return handshake.carry();
      case Step::kFall:
        return handshake.fall();
      case Step::kEnd:
        handshake.end(handshake.reason());
        return begin();
      case Step::kBegin:
        return begin();
    }
  }
  void hear(const WireBytes& frame) {
    switch (static_cast<ControlType>(frame.front())) {
      case ControlType::kOffer:
        return follow(handshake.on_offer(*ParseOffer(frame)));
      case ControlType::kReady:
        handshake.on_ready(*ParseGeneration(frame));
        return go_on();
      case ControlType::kVerdict:
        return follow(handshake.on_verdict(*ParseVerdict(frame)));
      default:
        FAIL() << "not of a handshake: " << static_cast<int>(frame.front());
    }
  }
};

struct HandshakePair {
  std::array<HandshakeEnd, 2> ends;
  HandshakeEnd& a = ends[0];
  HandshakeEnd& b = ends[1];

  void begin_first() {
    a.offer();
    b.offer();
  }
  // False: nothing was under way from this end.
  bool deliver(size_t from) {
    if (ends[from].said.empty()) return false;
    const WireBytes frame = std::move(ends[from].said.front());
    ends[from].said.pop_front();
    ends[1 - from].hear(frame);
    return true;
  }
  void settle() {
    while (deliver(0) || deliver(1)) {
    }
  }
  void start() {
    begin_first();
    settle();
    ASSERT_TRUE(a.handshake.carries() && b.handshake.carries());
    a.steps.clear();
    b.steps.clear();
  }
  // Both are where the control path carries.
  void start_on_control() {
    b.has_path = false;
    begin_first();
    settle();
    ASSERT_TRUE(a.phase() == Phase::kControl && b.phase() == Phase::kControl);
    b.has_path = true;
    a.steps.clear();
    b.steps.clear();
  }
};

TEST(SwitchingHandshake, HasTheFastPathCarryOnceBothEndsHaveProvedIt) {
  HandshakePair pair;
  pair.begin_first();
  EXPECT_EQ(pair.a.phase(), Phase::kOffering);
  EXPECT_FALSE(pair.a.handshake.control_carries());
  pair.settle();
  const Steps all{Step::kMeet, Step::kConnect, Step::kProbe, Step::kCarry};
  EXPECT_EQ(pair.a.steps, all);
  EXPECT_EQ(pair.b.steps, all);
}

TEST(SwitchingHandshake, SaysOfferReadyAndVerdictInThisOrder) {
  HandshakePair pair;
  pair.begin_first();
  pair.deliver(1);
  EXPECT_EQ(pair.a.phase(), Phase::kConnected);
  pair.deliver(0);
  pair.deliver(1);
  EXPECT_EQ(pair.a.phase(), Phase::kProved);
  std::vector<ControlType> said{ControlType::kOffer};
  for (const WireBytes& frame : pair.a.said) {
    said.push_back(static_cast<ControlType>(frame.front()));
  }
  EXPECT_EQ(said, (std::vector{ControlType::kOffer, ControlType::kReady, ControlType::kVerdict}));
}

TEST(SwitchingHandshake, WaitsWithItsProbeUntilBothAreConnected) {
  HandshakePair pair;
  pair.a.connects = false;
  pair.begin_first();
  pair.settle();
  EXPECT_EQ(pair.a.phase(), Phase::kConnecting);  // though the peer's READY is here
  EXPECT_EQ(pair.b.phase(), Phase::kConnected);
  pair.a.connects = true;
  pair.a.go_on();
  pair.settle();
  EXPECT_TRUE(pair.a.handshake.carries() && pair.b.handshake.carries());
}

TEST(SwitchingHandshake, FallsAtBothEndsWhereOneHasNoPath) {
  HandshakePair pair;
  pair.b.has_path = false;
  pair.begin_first();
  EXPECT_EQ(pair.b.phase(), Phase::kAbstaining);
  pair.settle();
  EXPECT_EQ(pair.a.phase(), Phase::kControl);
  EXPECT_EQ(pair.b.phase(), Phase::kControl);
  EXPECT_EQ(pair.a.reason(), "the peer says: no device");
  EXPECT_EQ(pair.b.reason(), "no device");
}

TEST(SwitchingHandshake, FallsAtBothEndsWhereOneHasNoProof) {
  HandshakePair pair;
  pair.a.proves = false;
  pair.begin_first();
  pair.settle();
  EXPECT_EQ(pair.a.phase(), Phase::kProbing);
  EXPECT_EQ(pair.b.phase(), Phase::kProved);
  pair.a.follow(pair.a.handshake.withdraw("no answer"));
  pair.settle();
  EXPECT_EQ(pair.a.phase(), Phase::kControl);
  EXPECT_EQ(pair.b.phase(), Phase::kControl);
  EXPECT_EQ(pair.b.reason(), "the peer says: no answer");
  EXPECT_FALSE(pair.b.handshake.peer_leaves());
}

TEST(SwitchingHandshake, KnowsAPeerThatLeaves) {
  HandshakePair pair;
  pair.begin_first();
  pair.a.follow(pair.a.handshake.withdraw(kLeaving));
  pair.settle();
  EXPECT_EQ(pair.b.phase(), Phase::kControl);
  EXPECT_TRUE(pair.b.handshake.peer_leaves());
}

// The peer may have the path carry already.
TEST(SwitchingHandshake, CannotWithdrawOnceItHasProvedThePath) {
  HandshakePair pair;
  pair.b.proves = false;
  pair.begin_first();
  pair.settle();
  ASSERT_EQ(pair.a.phase(), Phase::kProved);
  pair.a.follow(pair.a.handshake.withdraw("broken"));
  EXPECT_TRUE(pair.a.said.empty());
  pair.b.proves = true;
  pair.b.go_on();
  pair.settle();
  EXPECT_TRUE(pair.a.handshake.carries());
  EXPECT_EQ(pair.a.handshake.broken(), "broken");
}

TEST(SwitchingHandshake, ResumesInTheNextGenerationAfterTheFastPathBroke) {
  HandshakePair pair;
  pair.start();
  pair.a.break_path();
  EXPECT_TRUE(pair.a.handshake.resuming());
  EXPECT_FALSE(pair.a.handshake.control_carries());
  pair.settle();
  EXPECT_EQ(pair.b.steps.front(), Step::kEnd);
  EXPECT_EQ(pair.b.reason(), "the peer's end failed");  // offers with ends give no reason
  for (HandshakeEnd& end : pair.ends) {
    EXPECT_TRUE(end.handshake.carries());
    EXPECT_EQ(end.handshake.generation(), 1u);
    EXPECT_FALSE(end.handshake.resuming());
  }
}

// The offer says which messages have to go over the control path.
TEST(SwitchingHandshake, ThatResumesWaitsForThePeersOfferAlsoWhenItHasWithdrawn) {
  HandshakePair pair;
  pair.start();
  pair.a.break_path();
  pair.a.follow(pair.a.handshake.withdraw("the device went down"));
  EXPECT_EQ(pair.a.phase(), Phase::kWithdrawn);
  EXPECT_TRUE(pair.a.handshake.resuming());
  EXPECT_TRUE(pair.a.steps.empty());
  pair.settle();
  EXPECT_EQ(pair.a.steps, (Steps{Step::kMeet, Step::kFall}));
  EXPECT_EQ(pair.a.reason(), "the device went down");
  EXPECT_EQ(pair.b.phase(), Phase::kControl);
  EXPECT_EQ(pair.b.reason(), "the peer says: the device went down");
}

TEST(SwitchingHandshake, ThatDrainsRemembersThatThePeerHasGivenTheNextGenerationUp) {
  HandshakePair pair;
  pair.start();
  pair.b.handshake.end("broken, too");
  pair.a.break_path();
  pair.a.follow(pair.a.handshake.withdraw("the device went down"));
  pair.settle();
  EXPECT_EQ(pair.b.phase(), Phase::kDraining);
  pair.b.begin();
  EXPECT_EQ(pair.b.phase(), Phase::kControl);
  EXPECT_EQ(pair.b.reason(), "the peer says: the device went down");
  pair.settle();
  EXPECT_EQ(pair.a.phase(), Phase::kControl);
}

TEST(SwitchingHandshake, ReturnsFromTheControlPathWhichCarriesMeanwhile) {
  HandshakePair pair;
  pair.start_on_control();
  pair.a.proves = false;
  pair.a.begin();
  pair.settle();
  EXPECT_EQ(pair.b.steps.front(), Step::kBegin);
  for (HandshakeEnd& end : pair.ends) {
    EXPECT_TRUE(end.handshake.control_carries());
    EXPECT_FALSE(end.handshake.resuming());
  }
  pair.a.proves = true;
  pair.a.go_on();
  pair.settle();
  for (HandshakeEnd& end : pair.ends) {
    EXPECT_TRUE(end.handshake.carries());
    EXPECT_FALSE(end.handshake.control_carries());
  }
}

TEST(SwitchingHandshake, OfTwoEndsThatReturnAtOnceIsOneGeneration) {
  HandshakePair pair;
  pair.start_on_control();
  pair.a.begin();
  pair.b.begin();
  pair.settle();
  EXPECT_TRUE(pair.a.handshake.carries() && pair.b.handshake.carries());
  EXPECT_EQ(pair.a.handshake.generation(), 1u);
}

TEST(SwitchingHandshake, TakesWhatTheFastPathBringsOnceThePeerHasMoved) {
  HandshakePair pair;
  pair.begin_first();
  EXPECT_TRUE(pair.a.handshake.peer_moved());  // nothing has gone over the control path
  HandshakePair returning;
  returning.start_on_control();
  returning.a.begin();
  returning.settle();
  SwitchingHandshake& handshake = returning.a.handshake;
  EXPECT_FALSE(handshake.peer_moved());
  EXPECT_TRUE(handshake.on_moved(0));  // late
  EXPECT_FALSE(handshake.peer_moved());
  EXPECT_FALSE(handshake.on_moved(2));
  EXPECT_TRUE(handshake.on_moved(1));
  EXPECT_TRUE(handshake.peer_moved());
}

TEST(SwitchingHandshake, IsDeafToOtherGenerationsAndToThePeerOnceItIsDown) {
  HandshakePair pair;
  pair.start();
  pair.a.hear(WriteReady(7));
  pair.a.hear(WriteVerdict({7, false, "seven"}));
  pair.a.hear(
      WriteOffer({.generation = 7, .received = {}, .ends = {}, .outlook = {}, .reason = {}}));
  EXPECT_TRUE(pair.a.steps.empty());
  pair.a.handshake.stop();
  pair.b.break_path();
  pair.settle();
  EXPECT_TRUE(pair.a.steps.empty());
  EXPECT_TRUE(pair.a.said.empty());
}

// Whatever fails, and whatever crosses whatever else: once all is said both ends have the same path
// carry, in the same generation.
TEST(SwitchingHandshake, EndsAgreeWhateverHappensInWhicheverOrder) {
  int carried = 0;
  int fell = 0;
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    Random random(seed);
    HandshakePair pair;
    pair.begin_first();
    for (uint64_t turn = random.below(80); turn > 0; --turn) {
      const size_t which = random.below(2);
      HandshakeEnd& end = pair.ends[which];
      end.has_path = random.chance(0.9);
      end.connects = random.chance(0.7);
      end.proves = random.chance(0.7);
      if (random.chance(0.7)) {
        pair.deliver(which);
      } else if (random.chance(0.5)) {
        end.go_on();
      } else if (end.handshake.carries() && random.chance(0.3)) {
        end.handshake.end("broken");
      } else if (end.phase() == Phase::kDraining || end.phase() == Phase::kControl) {
        end.begin();
      } else if (random.chance(0.3)) {
        end.follow(end.handshake.withdraw("given up"));
      }
    }
    for (HandshakeEnd& end : pair.ends) {
      end.connects = end.proves = true;
      if (end.phase() == Phase::kDraining) end.begin();
      end.go_on();
    }
    pair.settle();
    ASSERT_EQ(pair.a.handshake.generation(), pair.b.handshake.generation()) << "seed " << seed;
    ASSERT_EQ(pair.a.phase(), pair.b.phase()) << "seed " << seed;
    ASSERT_TRUE(pair.a.handshake.carries() || pair.a.phase() == Phase::kControl) << "seed " << seed;
    ++(pair.a.handshake.carries() ? carried : fell);
  }
  EXPECT_GT(carried, 100);
  EXPECT_GT(fell, 100);
}

}  // namespace
}  // namespace rocecoll
