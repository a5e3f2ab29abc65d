// SPDX-License-Identifier: Apache-2.0
// How datagram transports open, close and die, and how they handle strangers.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "datagram/transport_world.h"

namespace rocecoll {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(DatagramLifecycle, AnUnansweredOpenTimesOut) {
  SimWorld world(2);
  Link* a = world.open(0, 1, 1, milliseconds(500));
  ASSERT_TRUE(world.run([&] { return !world[0].links[a].down.empty(); }, seconds(2)));
  EXPECT_EQ(world[0].links[a].down[0].code(), StatusCode::kTimeout);
  EXPECT_GE(world.now(), Instant(milliseconds(500)));
  EXPECT_LE(world.now(), Instant(milliseconds(600)));
  a->close(Status());
  EXPECT_FALSE(world[0].transport->lingering());
}

TEST(DatagramLifecycle, AnOrderlyCloseDeliversAcceptedFramesThenTellsThePeer) {
  SimWorld world(2, {.loss = 0.3, .reorder = 0.3}, 7);
  Link* a = world.open(0, 1);
  Link* b = world.open(1, 0);
  std::vector<Bytes> frames;
  for (uint64_t i = 0; i < 100; ++i) {
    frames.push_back(RandomBytes(100 + i, i));
    ASSERT_TRUE(a->send_frame(frames.back()));
  }
  a->close(Status());
  EXPECT_TRUE(world[0].transport->lingering());
  ASSERT_TRUE(world.run([&] { return !world[1].links[b].down.empty(); }, seconds(2)));
  EXPECT_EQ(world[1].links[b].frames, frames);
  EXPECT_EQ(world[1].links[b].down[0].code(), StatusCode::kPeerLeft);
  EXPECT_EQ(b->status().code(), StatusCode::kPeerLeft);
  EXPECT_TRUE(b->send_frame(Text("ignored")));  // a no-op on a link that is down
  b->close(Status());
  ASSERT_TRUE(world.run(
      [&] { return !world[0].transport->lingering() && !world[1].transport->lingering(); },
      seconds(3)));
  EXPECT_EQ(world[0].links[a].down.size(), 0u);
  // All is quiet: nothing will be due again.
  world.run_for(seconds(1));
  EXPECT_EQ(world[0].transport->next_deadline(), kNever);
  EXPECT_EQ(world[1].transport->next_deadline(), kNever);
}

// One end gives up during an outage. The other learns the reason as soon as it can hear again, not
// just that nobody knows its connection. A process that wants to end waits for that only for a
// short time.
TEST(DatagramLifecycle, AnErrorReachesThePeerAfterAnOutage) {
  SimWorld world(2);
  Link* a = world.open(0, 1);
  Link* b = world.open(1, 0);
  world.run_for(milliseconds(5));
  world.network.set_partition(1, true);
  a->close(Status(StatusCode::kPeerLost, "rank 7 has died"));
  EXPECT_TRUE(world[0].transport->lingering());
  world.run_for(milliseconds(1100));
  EXPECT_FALSE(world[0].transport->lingering());
  ASSERT_TRUE(b->send_frame(Text("anybody there?")));
  world.run_for(seconds(4));
  EXPECT_TRUE(world[1].links[b].down.empty());
  world.network.set_partition(1, false);
  ASSERT_TRUE(world.run([&] { return world.is_down(b); }, milliseconds(200)));
  EXPECT_EQ(b->status().code(), StatusCode::kPeerLost);
  EXPECT_EQ(b->status().reporter(), 0u);
  EXPECT_EQ(b->status().message(), "rank 7 has died");
  b->close(Status());
  world.run_for(seconds(2));
  EXPECT_EQ(world[0].transport->next_deadline(), kNever);
}

TEST(DatagramLifecycle, NothingLandsOrIsReadAfterClose) {
  SimWorld world(2, {.bytes_per_second = 1e8});
  Link* a = world.open(0, 1);
  Link* b = world.open(1, 0);
  world.run_for(milliseconds(5));
  auto source = std::make_unique<Bytes>(1 << 20, std::byte{1});
  Bytes target(1 << 20, std::byte{2});
  const RemoteSlice slice = b->expose({target.data(), target.size()}, 1);
  ASSERT_TRUE(a->write(slice, {source->data(), source->size()}, 2));
  world.ports[0]->set_send_room(2);  // keeps the last datagrams, which lend the source
  world.run_for(milliseconds(1));
  a->close(Status(StatusCode::kAborted, "no more"));
  source.reset();  // under a sanitizer, any later read is reported
  world.ports[0]->set_send_room(SIZE_MAX);
  b->close(Status(StatusCode::kAborted, "no more"));
  const Bytes before = target;
  world.run_for(seconds(2));
  EXPECT_EQ(target, before);
  EXPECT_FALSE(world[0].transport->lingering());
}

TEST(DatagramLifecycle, AHintFromTheNetworkShortensTheWait) {
  SimWorld world(2);
  world.network.set_report_unreachable(true);
  Link* a = world.open(0, 1);
  world.open(1, 0);
  world.run_for(milliseconds(5));
  world.kill(1);
  ASSERT_TRUE(a->send_frame(Text("anybody there?")));
  const Instant start = world.now();
  ASSERT_TRUE(world.run([&] { return !world[0].links[a].down.empty(); }, seconds(15)));
  EXPECT_EQ(a->status().code(), StatusCode::kPeerLost);
  EXPECT_LT(world.now() - start, seconds(1));
}

TEST(DatagramLifecycle, AFlapThatTheNetworkReportsIsNoDeath) {
  SimWorld world(2);
  Link* a = world.open(0, 1);
  Link* b = world.open(1, 0);
  world.run_for(milliseconds(5));
  world.network.set_partition(1, true, Obstacle::kHostUnreachable);
  ASSERT_TRUE(a->send_frame(Text("are you there?")));
  world.run_for(seconds(8));
  EXPECT_TRUE(world[0].links[a].down.empty());
  EXPECT_TRUE(world[1].links[b].frames.empty());
  world.network.set_partition(1, false);
  EXPECT_TRUE(world.run([&] { return world[1].links[b].frames.size() == 1; }, milliseconds(100)));
}

TEST(DatagramLifecycle, APauseOfAllIsNobodysSilence) {
  SimWorld world(2);
  Link* a = world.open(0, 1);
  Link* b = world.open(1, 0);
  world.run_for(seconds(2));
  for (const Duration pause : {seconds(12), seconds(3600)}) {
    // Nobody polls, as when a freezer stops processes.
    world.run([] { return false; }, pause, {0, 1});
    world.run_for(seconds(20));
    EXPECT_TRUE(world[0].links[a].down.empty());
    EXPECT_TRUE(world[1].links[b].down.empty());
  }
  world.run([] { return false; }, seconds(12), {0, 1});
  world.kill(1);  // silence counts again
  const Instant resumed = world.now();
  ASSERT_TRUE(world.run([&] { return !world[0].links[a].down.empty(); }, seconds(15)));
  EXPECT_GE(world.now() - resumed, seconds(9));
  EXPECT_LE(world.now() - resumed, milliseconds(10100));
}

// All processes are stopped while one of them is at work.
TEST(DatagramLifecycle, APauseWithinACallIsNobodysSilence) {
  for (const Duration pause : {milliseconds(9990), milliseconds(12000)}) {
    SimWorld world(2);
    Link* a = world.open(0, 1);
    Link* b = world.open(1, 0);
    world.run_for(seconds(2));
    bool stops = true;
    world.ports[0]->set_clock([&](Instant told) {
      if (std::exchange(stops, false)) world.queue.run_until(told + pause);
      return std::max(told, world.queue.now());
    });
    world.run_for(seconds(20));
    EXPECT_FALSE(stops);
    EXPECT_TRUE(world[0].links[a].down.empty()) << a->status().message();
    EXPECT_TRUE(world[1].links[b].down.empty()) << b->status().message();
  }
}

TEST(DatagramLifecycle, APauseOfOneIsSilenceForTheOther) {
  SimWorld world(2);
  Link* a = world.open(0, 1);
  Link* b = world.open(1, 0);
  world.run_for(seconds(2));
  world.run([] { return false; }, seconds(12), {1});
  ASSERT_EQ(world[0].links[a].down.size(), 1u);
  EXPECT_EQ(a->status().code(), StatusCode::kPeerLost);
  // The process learns that its peers have given it up.
  EXPECT_TRUE(world.run([&] { return !world[1].links[b].down.empty(); }, seconds(15)));
}

TEST(DatagramLifecycle, ASleepUntilTheDeadlineIsNoPause) {
  SimWorld world(2);
  Link* a = world.open(0, 1);
  world.open(1, 0);
  world.run_for(seconds(2));
  world.kill(1);
  const Instant killed = world.now();
  // The world polls like a driver that wakes up for deadlines only.
  while (world[0].links[a].down.empty()) {
    world.run([] { return false; }, world[0].transport->next_deadline() - world.now(), {0});
    world[0].poll(world.now());
    ASSERT_LE(world.now() - killed, seconds(11));
  }
}

TEST(DatagramLifecycle, AProcessThatHasNotOpenedItsSideIsWaitedForUntilItFreezes) {
  SimWorld world(2);
  Link* a = world.open(0, 1, 1, std::chrono::hours(100));
  world.run_for(std::chrono::minutes(10));
  EXPECT_TRUE(world[0].links[a].down.empty());
  EXPECT_FALSE(world[1].incoming.empty());
  world.run([] { return false; }, seconds(12), {1});
  ASSERT_EQ(world[0].links[a].down.size(), 1u);
  EXPECT_EQ(a->status().code(), StatusCode::kPeerLost);
}

TEST(DatagramLifecycle, APeerThatHasNoRoceIsWaitedForAsOverUdpAlone) {
  SimWorld world(4, {}, 1, {}, {.peer_timeout = seconds(10)}, seconds(4));
  world.addresses[1] = world.addresses[1].with_roce(Roce::kNone);
  world.addresses[2] = world.addresses[2].with_roce(Roce::kUsable);
  std::vector<Link*> links;
  for (uint32_t peer = 1; peer < 4; ++peer) links.push_back(world.connect(0, peer).first);
  world.run_for(milliseconds(100));
  for (uint32_t peer = 1; peer < 4; ++peer) world.kill(peer);
  const auto down = [&](size_t link) { return !world[0].links[links[link]].down.empty(); };
  world.run_for(seconds(5));
  EXPECT_FALSE(down(0));
  EXPECT_TRUE(down(1));
  EXPECT_TRUE(down(2));  // nobody knows that it has none
  world.run_for(seconds(6));
  EXPECT_TRUE(down(0));
}

// The new process will never open a link to which its predecessor agreed.
TEST(DatagramLifecycle, AProcessStartedAnewBeforeFirstContactIsFoundAtOnce) {
  SimWorld world(2);
  Link* a = world.open(0, 1, 1, std::chrono::hours(100));
  world.kill(1);
  world.restart(1);
  world.run_for(milliseconds(10));
  ASSERT_EQ(world[0].links[a].down.size(), 1u);
  EXPECT_EQ(a->status().code(), StatusCode::kPeerLost);
  EXPECT_NE(a->status().message().find("another process"), std::string::npos)
      << a->status().message();
}

TEST(DatagramLifecycle, AProcessThatWasNeverHeardIsToldAsSuch) {
  SimWorld world(3);
  world.network.set_partition(1, true);
  Link* a = world.open(0, 1, 1, std::chrono::hours(100));
  ASSERT_TRUE(world.run([&] { return !world[0].links[a].down.empty(); }, seconds(11)));
  EXPECT_EQ(a->status().code(), StatusCode::kNoContact);
  // A frozen process is found, too, whatever others report about it.
  Link* b = world.open(1, 2, 1, std::chrono::hours(100));
  world.run([] { return false; }, seconds(11), {2});
  ASSERT_EQ(world[1].links[b].down.size(), 1u);
  EXPECT_EQ(b->status().code(), StatusCode::kNoContact);
}

TEST(DatagramLifecycle, ARestartedPeerAnswersWithReset) {
  SimWorld world(2);
  Link* a = world.open(0, 1);
  world.open(1, 0);
  world.run_for(milliseconds(5));
  world.kill(1);
  world.restart(1);
  ASSERT_TRUE(a->send_frame(Text("hello")));
  const Instant start = world.now();
  ASSERT_TRUE(world.run([&] { return !world[0].links[a].down.empty(); }, seconds(15)));
  EXPECT_EQ(a->status().code(), StatusCode::kPeerLost);
  EXPECT_LT(world.now() - start, milliseconds(100));
  EXPECT_GT(world[1].transport->stats().packets_dropped_invalid, 0u);
  // New links reach the new process.
  Link* fresh = world.open(0, 1, 9);
  Link* back = world.open(1, 0, 9);
  ASSERT_TRUE(fresh->send_frame(Text("again")));
  ASSERT_TRUE(world.run([&] { return world[1].links[back].frames.size() == 1; }, seconds(1)));
}

TEST(DatagramLifecycle, IdleLinksLearnThatTheirPeerWasStartedAnewAtItsOldAddress) {
  SimWorld world(2);
  Link* idle = world.open(0, 1, 1);
  world.open(1, 0, 1);
  world.run_for(seconds(5));
  world.kill(1);
  world.run_for(seconds(3));  // less than the peer timeout, and nobody says that the port is closed
  world.restart(1);
  EXPECT_FALSE(world.is_down(idle));
  auto [fresh, back] = world.connect(0, 1, 2);
  const Instant start = world.now();
  ASSERT_TRUE(world.run([&] { return world.is_down(idle); }, seconds(60)));
  EXPECT_LT(world.now() - start, seconds(1));
  EXPECT_EQ(idle->status().code(), StatusCode::kPeerLost);
  EXPECT_FALSE(world.is_down(fresh));
}

TEST(DatagramLifecycle, GarbageIsCountedAndIgnored) {
  SimWorld world(2);
  Link* a = world.open(0, 1);
  Link* b = world.open(1, 0);
  world.run_for(milliseconds(5));
  auto stranger = world.network.add_endpoint();
  const PeerHandle to = stranger->add_peer(world.addresses[1]).value();
  const uint64_t before = world[1].transport->stats().packets_dropped_invalid;
  uint64_t garbage = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Bytes bytes = RandomBytes(seed * 7 % 1400, seed);
    if (seed % 2 == 0 && bytes.size() >= kPacketHeaderBytes) {
      // Each type gets a correct header and checksum around nonsense.
      const auto type = static_cast<PacketType>(1 + seed / 2 % 3);
      WritePacketHeader(bytes, {type, seed, seed});
      SealPacket(bytes, {});
      // May parse as the INIT of a link that nobody opened.
      if (type == PacketType::kInit) continue;
    }
    const TxDatagram datagram{to, bytes, {}};
    ASSERT_EQ(stranger->send({&datagram, 1}), 1u);
    ++garbage;
  }
  ASSERT_TRUE(a->send_frame(Text("still here")));
  ASSERT_TRUE(world.run([&] { return world[1].links[b].frames.size() == 1; }, seconds(1)));
  EXPECT_EQ(world[1].transport->stats().packets_dropped_invalid - before, garbage);
  // There are fewer answers than packets, and none is larger.
  std::array<RxDatagram, 256> answers;
  world.run_for(milliseconds(5));
  const size_t count = stranger->receive(answers);
  EXPECT_LE(count, static_cast<size_t>(DatagramTransport::kResetBurst) + 5);
  for (const RxDatagram& answer : std::span(answers).first(count)) {
    EXPECT_EQ(answer.bytes.size(), kPacketHeaderBytes);
  }
  stranger->release(std::span(answers).first(count));
}

TEST(DatagramLifecycle, IdleLinksOnlySendHeartbeats) {
  SimWorld world(2);
  for (uint64_t group = 1; group <= 20; ++group) {
    world.open(0, 1, group);
    world.open(1, 0, group);
  }
  world.run_for(seconds(1));
  const uint64_t before = world.network.stats().sent;
  world.run_for(seconds(10));
  // Both ends, with their pings and the answers, twice a second, whatever the number of links is.
  EXPECT_LE(world.network.stats().sent - before, 120u);
  for (Node& node : world.nodes) {
    for (auto& [link, record] : node.links) EXPECT_TRUE(record.down.empty());
  }
}

}  // namespace
}  // namespace rocecoll
