// SPDX-License-Identifier: Apache-2.0
// Peers that do not keep up: queues are bounded, what was accepted is delivered.
#include <gtest/gtest.h>

#include <vector>

#include "conformance/exchange.h"
#include "conformance/worlds.h"

namespace rocecoll {
namespace {

using std::chrono::milliseconds;

class Pressure : public Conformance {};
INSTANTIATE_TEST_SUITE_P(All, Pressure, testing::ValuesIn(AllWorlds()), NameOf);

// More than any transport may queue for one link.
constexpr size_t kTooManyBytes = size_t{256} << 20;
constexpr uint32_t kTooManyWrites = 100000;

TEST_P(Pressure, FramesForAPeerThatDoesNotPollAreRefusedInTheEnd) {
  const auto world = make(2);
  const auto [a, b] = world->connect(0, 1);
  world->run_for(milliseconds(20));
  const Bytes frame = RandomBytes((*world)[0].transport->limits().max_frame_bytes, 1);
  size_t accepted = 0;
  const auto fill = [&, from = a] {
    while (accepted * frame.size() < kTooManyBytes && from->send_frame(frame)) ++accepted;
    return false;
  };
  world->run(fill, milliseconds(100), {1});
  EXPECT_LT(accepted * frame.size(), kTooManyBytes);
  EXPECT_GT(accepted, 0u);
  ASSERT_TRUE(world->run([&, to = b] { return world->record(to).frames.size() == accepted; }));
  // There is room again once their arrival is known.
  EXPECT_TRUE(world->run([&, from = a] { return from->send_frame(frame); }));
}

TEST_P(Pressure, WritesForAPeerThatDoesNotPollAreRefusedInTheEnd) {
  const auto world = make_tight(2);
  const auto [a, b] = world->connect(0, 1);
  Bytes source(64);
  Bytes target(64 * 1024);
  uint32_t accepted = 0;
  RemoteSlice refused;
  while (accepted < kTooManyWrites) {
    std::byte* into = target.data() + accepted % 1024 * 64;
    refused = b->expose({into, source.size()}, accepted);
    if (!a->write(refused, {source.data(), source.size()}, accepted)) break;
    ++accepted;
  }
  EXPECT_LT(accepted, kTooManyWrites);
  ASSERT_TRUE(world->run([&, out = a, in = b] { return world->transferred(out, in, accepted); }));
  // What was refused has not begun.
  ASSERT_TRUE(world->run(
      [&, out = a] { return out->write(refused, {source.data(), source.size()}, accepted); }));
  ASSERT_TRUE(
      world->run([&, out = a, in = b] { return world->transferred(out, in, accepted + 1); }));
}

// The receiver takes one event, then does something else for a while.
TEST_P(Pressure, AReceiverThatPollsRarelyGetsEverything) {
  const auto world = make(2);
  const auto [a, b] = world->connect(0, 1);
  std::vector<Bytes> frames;
  std::vector<RandomWrite> writes;
  for (uint32_t i = 0; i < 300; ++i) frames.push_back(RandomBytes(1 + i * 31 % 700, i));
  for (uint32_t i = 0; i < 20; ++i) writes.emplace_back(1 + i * 4001, i);
  size_t sent = 0;
  uint32_t started = 0;
  const auto push = [&, out = a, in = b] {
    while (sent < frames.size() && out->send_frame(frames[sent])) ++sent;
    while (started < writes.size() && writes[started].start(out, in, started)) ++started;
    return world->record(in).frames.size() == frames.size() &&
           world->transferred(out, in, writes.size());
  };
  const Instant end = world->now() + std::chrono::seconds(300);
  while (!world->run(push, std::chrono::microseconds(300), {1})) {
    ASSERT_LT(world->now(), end);
    (*world)[1].poll(world->now(), 1);
  }
  EXPECT_EQ(world->record(b).frames, frames);
  for (const RandomWrite& one : writes) EXPECT_EQ(one.source, one.target);
}

// Others do not wait for the one that does not poll.
TEST_P(Pressure, ASilentPeerHoldsUpNobodyElse) {
  const auto world = make(3);
  Link* to_silent = world->connect(0, 1).first;
  const auto [to_other, other] = world->connect(0, 2);
  world->run_for(milliseconds(20));
  const Bytes frame(100, std::byte{1});
  size_t queued = 0;
  const auto fill = [&] {
    while (queued * frame.size() < kTooManyBytes && to_silent->send_frame(frame)) ++queued;
    return false;
  };
  world->run(fill, milliseconds(20), {1});
  RandomWrite write(200000, 1);
  ASSERT_TRUE(write.start(to_other, other, 1));
  ASSERT_TRUE(to_other->send_frame(frame));
  ASSERT_TRUE(world->run(
      [&, out = to_other, in = other] {
        return world->transferred(out, in, 1) && world->record(in).frames.size() == 1;
      },
      std::chrono::seconds(300), {1}));
  EXPECT_EQ(write.source, write.target);
}

}  // namespace
}  // namespace rocecoll
