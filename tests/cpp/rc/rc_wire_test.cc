// SPDX-License-Identifier: Apache-2.0
// The messages of an RC link: what is written is read, and nothing else is.
#include <gtest/gtest.h>

#include "rc/rc_world.h"
#include "transport/fast_paths/switching/switching_wire.h"

namespace rocecoll {
namespace {

Address SomeAddress(uint8_t fill, size_t size) {
  return {std::vector<std::byte>(size, std::byte{fill}), ""};
}

SwitchingOffer SomeOffer(size_t queue_pairs) {
  SwitchingOffer offer;
  offer.generation = 7;
  offer.ends.credits = 16;
  offer.ends.ports = 3;
  offer.received = {1, 2, 3, 4, 5, 6, 7, uint64_t{1} << 40};
  for (size_t i = 0; i < queue_pairs; ++i) {
    offer.ends.addresses.push_back(SomeAddress(static_cast<uint8_t>(i), 1 + i * 9));
  }
  if (queue_pairs == 0) {
    offer.outlook = SwitchingOutlook::kWillOffer;
    offer.reason = "no device";
  }
  return offer;
}

TEST(RcWire, OffersTravelWhole) {
  for (size_t queue_pairs = 0; queue_pairs <= FastPath::kMaxStreams; ++queue_pairs) {
    const SwitchingOffer sent = SomeOffer(queue_pairs);
    const auto got = ParseOffer(WriteOffer(sent));
    ASSERT_TRUE(got) << queue_pairs;
    EXPECT_EQ(got->generation, sent.generation);
    EXPECT_EQ(got->ends.credits, sent.ends.credits);
    EXPECT_EQ(got->ends.ports, sent.ends.ports);
    EXPECT_EQ(got->received, sent.received);
    EXPECT_TRUE(got->ends.addresses == sent.ends.addresses);
    EXPECT_EQ(got->outlook, sent.outlook);
    EXPECT_EQ(got->reason, sent.reason);
  }
  WireBytes unknown = WriteOffer(SomeOffer(0));
  const std::string reason = SomeOffer(0).reason;
  unknown[unknown.size() - reason.size() - 1] = std::byte{3};
  EXPECT_FALSE(ParseOffer(unknown)) << "an outlook that does not exist";
}

TEST(RcWire, AnOfferMayLackSomeStreamsButNotAll) {
  SwitchingOffer offer = SomeOffer(3);
  offer.ends.addresses[0] = offer.ends.addresses[2] = Address();
  const auto got = ParseOffer(WriteOffer(offer));
  ASSERT_TRUE(got);
  EXPECT_TRUE(got->ends.addresses == offer.ends.addresses);
  offer.ends.addresses[1] = Address();
  EXPECT_FALSE(ParseOffer(WriteOffer(offer)));
}

TEST(RcWire, OffersHaveAsManyPortsAsSlicesHaveKeys) {
  for (const uint8_t ports : {0, 5, 255}) {
    SwitchingOffer offer = SomeOffer(2);
    offer.ends.ports = ports;
    EXPECT_FALSE(ParseOffer(WriteOffer(offer))) << int{ports};
  }
}

TEST(RcWire, SmallMessagesTravelWhole) {
  EXPECT_EQ(ParseGeneration(WriteReady(9)), 9u);
  EXPECT_EQ(ParseGeneration(WriteMoved(8)), 8u);
  EXPECT_EQ(ParseGoodbye(WriteGoodbye(uint64_t{1} << 50)), uint64_t{1} << 50);
  const auto verdict = ParseVerdict(WriteVerdict({3, false, std::string(500, 'x')}));
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->generation, 3u);
  EXPECT_FALSE(verdict->proved);
  EXPECT_EQ(verdict->reason, std::string(kMaxReasonBytes, 'x'));
  const auto exposed = ParseExposed(WriteExposed({5, {1, 2, 3}}));
  ASSERT_TRUE(exposed);
  EXPECT_EQ(exposed->number, 5u);
  EXPECT_EQ(exposed->slice.length, 2u);
}

// Whatever is cut off or added, the message is refused as a whole. A reason may have any length.
TEST(RcWire, OtherLengthsAreRefused) {
  const auto refuse_all = [](const WireBytes& whole, auto&& parse) {
    for (size_t size = 1; size < whole.size(); ++size) {
      EXPECT_FALSE(parse(std::span(whole).first(size))) << size;
    }
    WireBytes longer = whole;
    longer.push_back(std::byte{0});
    EXPECT_FALSE(parse(longer));
  };
  refuse_all(WriteOffer(SomeOffer(3)), ParseOffer);
  refuse_all(WriteReady(1), ParseGeneration);
  refuse_all(WriteMoved(1), ParseGeneration);
  refuse_all(WriteExposed({5, {1, 2, 3}}), ParseExposed);
  refuse_all(WriteGoodbye(1), ParseGoodbye);
}

TEST(RcWire, StreamHeaders) {
  std::array<std::byte, StreamHeader::kWireBytes + 1> bytes{};
  StreamHeader{StreamHeader::Kind::kFrame, 2, 300, 4}.store(bytes);
  const auto frame = StreamHeader::Parse(bytes);
  ASSERT_TRUE(frame);
  EXPECT_EQ(frame->bare_credits, 2);
  EXPECT_EQ(frame->credits, 300);
  EXPECT_EQ(frame->number, 4u);
  EXPECT_FALSE(StreamHeader::Parse(std::span(bytes).first(StreamHeader::kWireBytes)));  // empty
  StreamHeader{StreamHeader::Kind::kCredit, 0, 1, 0}.store(bytes);
  EXPECT_FALSE(StreamHeader::Parse(bytes));  // something follows
  bytes[0] = std::byte{9};
  EXPECT_FALSE(StreamHeader::Parse(bytes));
}

// A peer that talks nonsense on the control path costs its own link, nothing else.
TEST(RcWire, NonsenseEndsTheLinkAlone) {
  Random random(1);
  for (int round = 0; round < 300; ++round) {
    RcWorld world(3);
    Link* good = world.open(0, 1);
    Link* good_peer = world.open(1, 0);
    Link* link = world.open(0, 2);
    // The liar: rank 2 without the rc protocol.
    world.kill(2);
    auto port = world.network.restart_endpoint(2);
    DatagramTransport liar(std::move(port), ConnectionOptions());
    const LinkId id{1, 77, 2, 0};
    Link* raw =
        liar.open(id, world.addresses[0], std::chrono::seconds(30), world.queue.now()).value();
    std::array<Event, 16> events;
    std::optional<Status> told;
    const auto poll_liar = [&] {
      const size_t count = liar.poll(world.queue.now(), events);
      for (const Event& event : std::span(events).first(count)) {
        if (event.kind == Event::Kind::kDown) told = event.link->status();
      }
    };
    for (int i = 0; i < 20; ++i) {
      Bytes nonsense = RandomBytes(1 + random.below(120), random.next());
      nonsense[0] = static_cast<std::byte>(random.below(9));
      if (random.chance(0.3)) nonsense = WriteOffer(SomeOffer(random.below(9)));
      if (random.chance(0.2)) nonsense = WriteVerdict({0, true, ""});
      if (random.chance(0.2)) nonsense = WriteReady(0);
      raw->send_frame(nonsense);
    }
    ASSERT_TRUE(good->send_frame(RandomBytes(100, 1)));
    EXPECT_TRUE(world.run([&] {
      poll_liar();
      return !world.at(0, link).down.empty() && world.at(1, good_peer).frames.size() == 1;
    })) << round;
    // What the owner closes because it is down does not look like leaving in good order.
    link->close({});
    EXPECT_TRUE(world.run([&] {
      poll_liar();
      return told.has_value();
    })) << round;
    EXPECT_EQ(told.value_or(Status()).code(), StatusCode::kNetwork);
    EXPECT_EQ(told.value_or(Status()).reporter(), id.remote);
  }
}

}  // namespace
}  // namespace rocecoll
