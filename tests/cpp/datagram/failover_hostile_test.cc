// SPDX-License-Identifier: Apache-2.0
// Forgers, replays and garbage cannot influence the choice of paths; they are only counted.
#include <gtest/gtest.h>

#include "base/random.h"
#include "datagram/scripted_peer.h"

namespace rocecoll {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

TEST(PathWire, HelloAndProbeSurviveTheRoundTripAndNothingElsePasses) {
  const Address address = SimAddress(77);
  const PathHello hello{PathMessage::kAnswer, PathHello::Port::kDown, true, 4096, 5, 6, address};
  Bytes bytes = Hello(hello);
  ASSERT_EQ(bytes.size(), 128u);
  EXPECT_EQ(bytes[1], std::byte{5});
  const auto read = ParseHello(bytes);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->message, hello.message);
  EXPECT_EQ(read->port, hello.port);
  EXPECT_TRUE(read->knows_receiver);
  EXPECT_EQ(read->datagram_bytes, 4096u);
  EXPECT_EQ(read->nonce, 5u);
  EXPECT_EQ(read->mark, 6u);
  EXPECT_EQ(read->address, address);
  EXPECT_FALSE(ParseProbe(bytes));
  for (const size_t offset : {40u, 41u, 42u, 43u}) {
    Bytes bad = Hello(hello);
    bad[offset] = std::byte{65};
    SealPacket(bad, {});
    EXPECT_FALSE(ParseHello(bad)) << offset;
  }
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(ParseHello(std::span(bytes).first(size)));
  }
  bytes[60] ^= std::byte{1};
  EXPECT_FALSE(ParseHello(bytes));

  Bytes padded(1000);
  WriteProbe(padded, {PathMessage::kQuestion, 9});
  ASSERT_TRUE(ParseProbe(padded));
  EXPECT_EQ(ParseProbe(padded)->nonce, 9u);
  EXPECT_FALSE(ParseHello(padded));
  padded[999] = std::byte{1};
  EXPECT_FALSE(ParseProbe(padded));
}

TEST(FailoverPort, OnlyAnswersWithTheNonceCount) {
  Scripted world;
  world.run(milliseconds(2));
  const PathHello question = world.hellos().at(0);
  for (const uint64_t nonce :
       {uint64_t{0}, question.nonce + 1, question.nonce ^ (uint64_t{1} << 63)}) {
    PathHello forged = world.answer_to(question);
    forged.nonce = nonce;
    Scripted::say(*world.peer_udp, *world.own_udp, Hello(forged));
  }
  PathHello elsewhere = world.answer_to(question);
  elsewhere.mark = question.mark + (uint64_t{1} << 32);
  Scripted::say(*world.peer_udp, *world.own_udp, Hello(elsewhere));
  world.run(milliseconds(50));
  EXPECT_TRUE(world.probes().empty());
  EXPECT_EQ(world.port->counts().ignored, 4u);
  EXPECT_EQ(world.passed_on, 0u);
}

TEST(FailoverPort, OnlyTheOpenProbesNonceFromThePeersUdAddressProves) {
  Scripted world;
  world.lead_to_probing();
  const uint64_t nonce = world.probes().at(0).nonce;
  auto stranger = world.ud.add_endpoint();
  Scripted::say(*stranger, *world.own_ud, Probe(PathMessage::kAnswer, nonce));
  Scripted::say(*world.peer_ud, *world.own_ud, Probe(PathMessage::kAnswer, nonce + 1));
  Scripted::say(*world.peer_udp, *world.own_udp, Probe(PathMessage::kAnswer, nonce));
  world.run(milliseconds(20));
  EXPECT_FALSE(world.port->uses_ud(world.peer));
  EXPECT_EQ(world.port->counts().ignored, 3u);
  Scripted::say(*world.peer_ud, *world.own_ud, Probe(PathMessage::kAnswer, nonce));
  world.run(milliseconds(1));
  EXPECT_TRUE(world.port->uses_ud(world.peer));
}

TEST(FailoverPort, ReplayedAnswersChangeNothing) {
  Scripted world;
  const PathHello answer = world.lead_to_probing();
  const uint64_t nonce = world.probes().at(0).nonce;
  Scripted::say(*world.peer_ud, *world.own_ud, Probe(PathMessage::kAnswer, nonce));
  world.run(milliseconds(1));
  ASSERT_TRUE(world.port->uses_ud(world.peer));
  PathHello none = answer;
  none.port = PathHello::Port::kNone;
  for (int i = 0; i < 10; ++i) {
    Scripted::say(*world.peer_udp, *world.own_udp, Hello(answer));
    Scripted::say(*world.peer_udp, *world.own_udp, Hello(none));
    Scripted::say(*world.peer_ud, *world.own_ud, Probe(PathMessage::kAnswer, nonce));
  }
  world.run(milliseconds(10));
  EXPECT_TRUE(world.port->uses_ud(world.peer));
  EXPECT_EQ(world.port->counts().ignored, 30u);
  // Neither do they keep a path that has died.
  for (int i = 0; i < 40; ++i) {
    Scripted::say(*world.peer_ud, *world.own_ud, Probe(PathMessage::kAnswer, nonce));
    for (const PathHello& question : world.hellos()) {
      Scripted::say(*world.peer_udp, *world.own_udp, Hello(world.answer_to(question)));
    }
    world.run(milliseconds(100));
    // A question makes the port check whether its answers are fresh.
    PathHello question;
    question.address = world.peer_ud->address();
    Scripted::say(*world.peer_udp, *world.own_udp, Hello(question));
  }
  EXPECT_EQ(world.port->counts().failed, 1u);
}

TEST(FailoverPort, ForgedQuestionsCostAboutWhatTheyAreWorth) {
  Scripted world;
  world.lead_to_ud();
  world.hellos();
  world.probes();
  PathHello question;
  question.address = world.peer_ud->address();
  question.knows_receiver = true;
  auto forger = world.udp.add_endpoint();
  for (int i = 0; i < 100'000; ++i) {
    question.nonce = static_cast<uint64_t>(i);
    Scripted::say(*forger, *world.own_udp, Hello(question));
    if (i % 1000 != 0) continue;
    world.run(microseconds(100), false);
    for (const PathProbe& probe : world.probes()) {
      Scripted::say(*world.peer_ud, *world.own_ud, Probe(PathMessage::kAnswer, probe.nonce));
    }
  }
  world.run(milliseconds(10), false);
  EXPECT_TRUE(world.port->uses_ud(world.peer));
  const auto answers = Drain(*forger);
  EXPECT_GT(answers.size(), 0u);
  EXPECT_LE(answers.size(), 1024u + 300);
  for (const Bytes& answer : answers) EXPECT_EQ(answer.size(), PathHello::kWireBytes);
  EXPECT_LE(world.hellos().size(), 2u) << "the forger makes it talk to somebody else";
}

TEST(FailoverPort, AnswersEachQuestionWithAsManyBytesAndOnlyKnownPeersProbes) {
  Scripted world;
  auto stranger_udp = world.udp.add_endpoint();
  auto stranger_ud = world.ud.add_endpoint();
  PathHello question;
  question.nonce = 42;
  question.mark = UINT64_MAX;
  question.address = stranger_ud->address();
  Scripted::say(*stranger_udp, *world.own_udp, Hello(question));
  Scripted::say(*stranger_ud, *world.own_ud, Probe(PathMessage::kQuestion, 43));
  world.run(milliseconds(1), false);
  const auto got = Drain(*stranger_udp);
  ASSERT_EQ(got.size(), 1u);
  const auto answer = ParseHello(got[0]);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->nonce, 42u);
  EXPECT_EQ(answer->mark, UINT64_MAX);
  EXPECT_EQ(answer->port, PathHello::Port::kUsable);
  EXPECT_EQ(answer->address, world.own_ud->address());
  EXPECT_FALSE(answer->knows_receiver);
  EXPECT_TRUE(Drain(*stranger_ud).empty());
  EXPECT_EQ(world.port->counts().ignored, 1u);
}

TEST(FailoverPort, GarbageIsIgnoredAndCounted) {
  Scripted world;
  world.lead_to_ud();
  const uint64_t before = world.port->counts().ignored;
  Random random(7);
  for (int i = 0; i < 2000; ++i) {
    Bytes bytes = RandomBytes(random.below(300), random.next());
    if (bytes.size() >= kPacketHeaderBytes) {
      WritePacketHeader(bytes,
                        {random.chance(0.5) ? PacketType::kHello : PacketType::kProbe, 0, 0});
      if (random.chance(0.5)) SealPacket(bytes, {});
    }
    const bool over_udp = random.chance(0.5);
    Scripted::say(over_udp ? *world.peer_udp : *world.peer_ud,
                  over_udp ? *world.own_udp : *world.own_ud, bytes);
    if (i % 50 == 0) world.run(milliseconds(1), false);
  }
  world.run(milliseconds(10), false);
  EXPECT_GT(world.port->counts().ignored, before + 1000);
  EXPECT_GT(world.passed_on, 100u);  // the owner drops what is too short to be ours
  EXPECT_TRUE(world.port->uses_ud(world.peer));
}

}  // namespace
}  // namespace rocecoll
