// SPDX-License-Identifier: Apache-2.0
// Large messages go in pieces, a few of which are exposed at a time.
#include <gtest/gtest.h>

#include <algorithm>

#include "messenger/message_wire.h"
#include "messenger/world.h"

namespace rocecoll {
namespace {

constexpr size_t kPieceBytes = 1000;
constexpr size_t kMostPieces = 8;  // at a time

WorldOptions InPieces() {
  WorldOptions options = SmallWorld();
  options.fabric.max_write_bytes = kPieceBytes;
  return options;
}

TEST(MessengerPieces, AllSizesInBothOrdersOfPosting) {
  for (size_t size : {201u, 999u, 1000u, 1001u, 8000u, 8001u, 100'003u}) {
    for (bool send_first : {true, false}) {
      SCOPED_TRACE(testing::Message() << size << (send_first ? " send" : " recv") << " first");
      ExpectExchange(InPieces(), size, send_first);
    }
  }
}

// Nothing but the link's bounds keeps them apart.
TEST(MessengerPieces, ManyMessagesAtOnceBothWays) {
  WorldOptions options = InPieces();
  options.fabric.max_queued_frames = 4;
  options.fabric.max_queued_writes = 3;
  World world(options);
  constexpr size_t kMessages = 20;
  std::vector<Payload> from, into;
  for (size_t i = 0; i < 2 * kMessages; ++i) {
    from.emplace_back(500 + i * 777, i);
    into.push_back(Payload::Blank(from.back().bytes.size()));
  }
  for (size_t i = 0; i < 2 * kMessages; ++i) {
    const auto source = static_cast<Rank>(i % 2);
    const Rank target = 1 - source;
    if (i % 3 == 0) world.settle(std::chrono::microseconds(10));
    world.send(source, target, PointToPointTag(i), from[i], i);
    world.recv(target, source, PointToPointTag(i), into[i], 100 + i);
  }
  for (size_t i = 0; i < 2 * kMessages; ++i) {
    const auto source = static_cast<Rank>(i % 2);
    ASSERT_TRUE(world.run_until_done(source, i)) << i;
    ASSERT_TRUE(world.run_until_done(1 - source, 100 + i)) << i;
  }
  EXPECT_EQ(into, from);
}

// Frames as the peer's, which plays a messenger by hand.
class PiecesByHand : public testing::Test {
 protected:
  PiecesByHand() : fabric_(Options()) {
    link_ = fabric_.transport(1)
                .open({GroupKey{1, 2}, 1, 0}, fabric_.transport(0).address(),
                      std::chrono::seconds(10), fabric_.now())
                .value();
    std::vector<Address> addresses{fabric_.transport(0).address(), fabric_.transport(1).address()};
    messenger_ = std::make_unique<Messenger>(fabric_.transport(0), GroupKey{1, 2}, 0, addresses,
                                             MessengerOptions());
  }
  static SimFabricOptions Options() {
    SimFabricOptions options;
    options.max_frame_bytes = 256;
    options.max_write_bytes = kPieceBytes;
    return options;
  }
  void clear(uint64_t length, uint64_t piece) {
    MessageFrame frame;
    frame.type = MessageType::kClearToSend;
    frame.flag = true;
    frame.tag = PointToPointTag(1);
    frame.fingerprint = PrintOf(1);
    frame.length = length;
    frame.slice = {1, piece, 1};
    std::array<std::byte, MessageFrame::kMaxControlBytes> head;
    ASSERT_TRUE(link_->send_frame(WriteMessageHead(head, frame)));
  }
  // Runs until nothing more happens; the clear-to-sends that the peer has got.
  std::vector<MessageFrame> run() {
    std::vector<MessageFrame> cleared;
    RunUntil(
        fabric_,
        [&](uint32_t rank, Instant now) {
          Event events[8];
          size_t count = 0;
          while ((count = fabric_.transport(rank).poll(now, events)) > 0) {
            for (const Event& event : std::span(events).first(count)) {
              if (rank == 0) {
                messenger_->on_event(now, event);
              } else if (event.kind == Event::Kind::kFrame) {
                const auto frame = ParseMessageFrame(event.frame);
                if (frame && frame->type == MessageType::kClearToSend) cleared.push_back(*frame);
              }
            }
          }
          if (rank == 0) messenger_->flush(now);
          return kNever;
        },
        [] { return false; }, std::chrono::milliseconds(20));
    return cleared;
  }
  std::string refusal() {
    run();
    const MessengerFailure* failure = messenger_->failure();
    return failure == nullptr ? "" : failure->status.message();
  }

  SimFabric fabric_;
  Link* link_ = nullptr;
  std::unique_ptr<Messenger> messenger_;
  Payload payload_{20 * kPieceBytes, 1};
};

TEST_F(PiecesByHand, NoMoreAreExposedThanMayBeUnderWay) {
  messenger_->recv(fabric_.now(), 1, PointToPointTag(1), PrintOf(1), payload_.slice(), 1);
  std::vector<MessageFrame> cleared = run();
  ASSERT_EQ(cleared.size(), kMostPieces);
  for (const MessageFrame& frame : cleared) EXPECT_EQ(frame.slice.length, kPieceBytes);
  Payload piece(kPieceBytes, 9);
  ASSERT_TRUE(link_->write(cleared.front().slice, piece.slice(), 1));
  EXPECT_EQ(run().size(), 1u) << "one landed, so one more";
}

TEST_F(PiecesByHand, PiecesOfOtherSizesAreRefused) {
  messenger_->send(fabric_.now(), 1, PointToPointTag(1), PrintOf(1), payload_.slice(), 1);
  clear(payload_.bytes.size(), kPieceBytes - 1);
  EXPECT_NE(refusal().find("a piece of another size than this rank's"), std::string::npos);
}

TEST_F(PiecesByHand, AMessageIsNotClearedTwice) {
  payload_ = Payload(kPieceBytes + 1);
  messenger_->send(fabric_.now(), 1, PointToPointTag(1), PrintOf(1), payload_.slice(), 1);
  clear(payload_.bytes.size(), kPieceBytes);
  clear(payload_.bytes.size(), 1);
  clear(payload_.bytes.size(), 1);
  EXPECT_NE(refusal().find("the same clear-to-send twice"), std::string::npos);
}

TEST_F(PiecesByHand, ClearToSendsBeforeTheSendAreBounded) {
  for (size_t i = 0; i < kMostPieces; ++i) clear(payload_.bytes.size(), kPieceBytes);
  messenger_->accept(fabric_.now(), 1);
  EXPECT_EQ(refusal(), "");
  clear(payload_.bytes.size(), kPieceBytes);
  EXPECT_NE(refusal().find("more clear-to-sends for a message than may be under way"),
            std::string::npos);
}

}  // namespace
}  // namespace rocecoll
