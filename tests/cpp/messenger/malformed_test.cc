// SPDX-License-Identifier: Apache-2.0
// Frames that no messenger of ours would send: refused by name, never a crash.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "base/random.h"
#include "messenger/message_wire.h"
#include "messenger/world.h"

namespace rocecoll {
namespace {

MessageFrame FrameOf(MessageType type, const Tag& tag, bool flag = false) {
  MessageFrame frame;
  frame.type = type;
  frame.flag = flag;
  frame.tag = tag;
  frame.fingerprint = PrintOf(1);
  return frame;
}

std::vector<std::byte> Encode(const MessageFrame& frame) {
  std::array<std::byte, MessageFrame::kMaxControlBytes> head;
  std::vector<std::byte> bytes;
  FrameBytes(WriteMessageHead(head, frame), frame.payload).append_to(bytes);
  return bytes;
}

TEST(MessageWire, RoundTripsEveryType) {
  const Payload payload(17, 5);
  const std::vector<TagRun> two{{4, 4, 7}, {9, 0x7fffffff, 1}};
  const std::vector<std::byte> runs = EncodeTagRuns(two);
  for (auto type :
       {MessageType::kEager, MessageType::kClearToSend, MessageType::kStarved, MessageType::kCredit,
        MessageType::kPending, MessageType::kListening, MessageType::kRetire}) {
    MessageFrame frame = FrameOf(type, Tag{0x1122334455667788, 9, 0x10002});
    frame.credits = 513;
    if (type == MessageType::kEager) {
      frame.flag = true;
      frame.payload = payload.bytes;
      frame.length = payload.bytes.size();
    } else if (type == MessageType::kClearToSend) {
      frame.flag = true;
      frame.length = 100;
      frame.slice = {1, 100, 3};
    } else if (type == MessageType::kRetire) {
      frame.payload = runs;
    }
    const std::vector<std::byte> bytes = Encode(frame);
    const auto parsed = ParseMessageFrame(bytes);
    ASSERT_TRUE(parsed.has_value());
    EXPECT_EQ(parsed->type, type);
    EXPECT_EQ(parsed->flag, frame.flag);
    EXPECT_EQ(parsed->credits, 513);
    if (type == MessageType::kStarved || type == MessageType::kCredit ||
        type == MessageType::kListening) {
      continue;
    }
    if (type == MessageType::kRetire) {
      EXPECT_EQ(ParseTagRuns(parsed->payload), two);
      continue;
    }
    EXPECT_EQ(parsed->tag, frame.tag);
    EXPECT_EQ(parsed->fingerprint, frame.fingerprint);
    EXPECT_EQ(parsed->length, frame.length);
    EXPECT_EQ(parsed->slice.base, frame.slice.base);
    EXPECT_EQ(parsed->slice.key, frame.slice.key);
    EXPECT_TRUE(std::ranges::equal(parsed->payload, frame.payload));
  }
}

TEST(MessageWire, HasTheLayoutOfTheDocument) {
  MessageFrame frame =
      FrameOf(MessageType::kEager, Tag{0x0807060504030201, 0x0c0b0a09, 0x100f0e0d});
  frame.credits = 0x0302;
  const std::vector<std::byte> bytes = Encode(frame);
  const std::array<uint8_t, 24> expected = {1, 0, 2, 3, 9,  10, 11, 12, 1, 2, 3, 4,
                                            5, 6, 7, 8, 13, 14, 15, 16, 0, 0, 0, 0};
  ASSERT_EQ(bytes.size(), 56u);
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(std::to_integer<int>(bytes[i]), expected[i]) << i;
  }
  EXPECT_EQ(bytes[32], std::byte{1});
}

TEST(MessageWire, EveryPrefixIsRefused) {
  MessageFrame frame = FrameOf(MessageType::kClearToSend, CollectiveTag(1), true);
  frame.length = 9;
  frame.slice = {1, 9, 3};
  std::vector<std::byte> bytes = Encode(frame);
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(ParseMessageFrame(std::span(bytes).first(size)).has_value()) << size;
  }
  bytes.push_back(std::byte{0});
  EXPECT_FALSE(ParseMessageFrame(bytes).has_value());
}

// A messenger at rank 0 and, as rank 1, whatever a test puts on the wire.
class MalformedTest : public testing::Test {
 protected:
  MalformedTest() : fabric_(Options()) {
    MessengerOptions options;
    options.eager_credits = 4;
    options.max_early_clear_to_send = 3;
    messenger_ = std::make_unique<Messenger>(
        fabric_.transport(0), GroupKey{1, 2}, 0,
        std::vector<Address>{fabric_.transport(0).address(), fabric_.transport(1).address()},
        options);
    enemy_ = fabric_.transport(1)
                 .open(LinkId{1, 2, 1, 0}, fabric_.transport(0).address(), std::chrono::seconds(1),
                       fabric_.now())
                 .value();
    messenger_->recv(fabric_.now(), 1, PointToPointTag(999), PrintOf(1), posted_.slice(), 1);
  }
  static SimFabricOptions Options() {
    SimFabricOptions options;
    options.max_frame_bytes = 512;
    return options;
  }
  void inject(std::span<const std::byte> bytes) {
    ASSERT_TRUE(enemy_->send_frame(bytes));
    RunUntil(
        fabric_,
        [this](uint32_t endpoint, Instant now) {
          Event event;
          while (fabric_.transport(endpoint).poll(now, {&event, 1}) > 0) {
            if (endpoint == 0) messenger_->on_event(now, event);
            if (endpoint == 1 && event.kind == Event::Kind::kFrame) note_sent(event.frame);
          }
          if (endpoint == 0) messenger_->flush(now);
          return kNever;
        },
        [] { return false; }, std::chrono::milliseconds(1));
  }
  void note_sent(std::span<const std::byte> bytes) {
    const auto frame = ParseMessageFrame(bytes);
    ASSERT_TRUE(frame.has_value());
    if (frame->type == MessageType::kEager && frame->flag) sent_as_cleared_.push_back(frame->tag);
  }
  void expect_refused() {
    ASSERT_NE(messenger_->failure(), nullptr);
    EXPECT_EQ(messenger_->failure()->status.code(), StatusCode::kNetwork);
    EXPECT_EQ(messenger_->failure()->peer, 1u);
    EXPECT_NE(messenger_->failure()->status.message().find("rank 1"), std::string::npos);
  }

  SimFabric fabric_;
  Payload posted_{16};
  std::unique_ptr<Messenger> messenger_;
  Link* enemy_ = nullptr;
  std::vector<Tag> sent_as_cleared_;
};

TEST_F(MalformedTest, UnknownType) {
  inject(std::array<std::byte, 4>{std::byte{99}});
  expect_refused();
}

TEST_F(MalformedTest, CreditsFromNowhere) {
  MessageFrame frame;
  frame.credits = 1;
  inject(Encode(frame));
  expect_refused();
}

TEST_F(MalformedTest, MoreEagerMessagesThanCredits) {
  for (uint64_t i = 0; i < 4; ++i) inject(Encode(FrameOf(MessageType::kEager, PointToPointTag(i))));
  EXPECT_EQ(messenger_->failure(), nullptr);
  inject(Encode(FrameOf(MessageType::kEager, PointToPointTag(4))));
  expect_refused();
}

TEST_F(MalformedTest, TheSameUnexpectedMessageTwice) {
  inject(Encode(FrameOf(MessageType::kEager, PointToPointTag(1))));
  inject(Encode(FrameOf(MessageType::kEager, PointToPointTag(1))));
  expect_refused();
}

TEST_F(MalformedTest, ClearedMessageThatNobodyCleared) {
  inject(Encode(FrameOf(MessageType::kEager, PointToPointTag(1), true)));
  expect_refused();
}

TEST_F(MalformedTest, TooManyEarlyClears) {
  for (uint64_t i = 0; i < 4; ++i) {
    EXPECT_EQ(messenger_->failure(), nullptr);
    MessageFrame frame = FrameOf(MessageType::kClearToSend, PointToPointTag(i), true);
    frame.length = 5000;
    frame.slice = {0, 5000, i};
    inject(Encode(frame));
  }
  expect_refused();
}

TEST_F(MalformedTest, TheSameClearTwice) {
  MessageFrame frame = FrameOf(MessageType::kClearToSend, PointToPointTag(1), true);
  frame.length = 5000;
  frame.slice = {0, 5000, 1};
  inject(Encode(frame));
  inject(Encode(frame));
  expect_refused();
}

TEST_F(MalformedTest, ClearForAnotherEagerLimit) {
  Payload large(5000);
  messenger_->send(fabric_.now(), 1, PointToPointTag(1), PrintOf(1), large.slice(), 2);
  MessageFrame frame = FrameOf(MessageType::kClearToSend, PointToPointTag(1));
  frame.length = 5000;
  inject(Encode(frame));
  expect_refused();
}

// Not malformed: a clear-to-send of the last period of starvation, come late, is kept in the next
// one, and the tag retired.
TEST_F(MalformedTest, AStaleClearIsForgottenWithItsTag) {
  const auto tag = [](uint64_t user_tag) { return PointToPointTag(user_tag << 32); };
  Payload payload(8);
  const auto send = [&](uint64_t user_tag) {
    messenger_->send(fabric_.now(), 1, tag(user_tag), PrintOf(1), payload.slice(), user_tag);
  };
  for (uint64_t user_tag = 0; user_tag < 5; ++user_tag) send(user_tag);  // the last one starves
  MessageFrame clear = FrameOf(MessageType::kClearToSend, {});
  clear.length = 8;
  for (uint64_t user_tag = 20; user_tag < 23; ++user_tag) {
    clear.tag = tag(user_tag);
    inject(Encode(clear));
  }
  MessageFrame retired = FrameOf(MessageType::kRetire, {}, /*flag=*/true);
  const std::vector<TagRun> runs{{10, 15, 1}, {20, 20, 1}, {22, 30, 3}};
  const std::vector<std::byte> encoded = EncodeTagRuns(runs);
  retired.payload = encoded;
  inject(Encode(retired));
  for (uint64_t user_tag = 20; user_tag < 23; ++user_tag) send(user_tag);
  inject(Encode(FrameOf(MessageType::kCredit, {})));
  EXPECT_EQ(sent_as_cleared_, std::vector<Tag>{tag(21)});
  EXPECT_EQ(messenger_->failure(), nullptr);
}

TEST_F(MalformedTest, RunsOfTagsThatNobodySends) {
  for (const auto& runs : {std::vector<TagRun>{{5, 4, 1}},
                           {{5, 0x80000000, 1}},
                           {{5, 7, 1}, {7, 9, 2}},
                           {{5, 7, 1}, {1, 2, 1}}}) {
    EXPECT_FALSE(ParseTagRuns(EncodeTagRuns(runs)).has_value());
  }
  MessageFrame frame = FrameOf(MessageType::kRetire, {});
  const std::vector<TagRun> runs{{5, 4, 1}};
  const std::vector<std::byte> payload = EncodeTagRuns(runs);
  frame.payload = payload;
  inject(Encode(frame));
  expect_refused();
}

TEST_F(MalformedTest, RandomBytesNeverCrash) {
  Random random(7);
  for (int i = 0; i < 20000; ++i) {
    std::vector<std::byte> bytes(1 + random.below(100));
    for (std::byte& b : bytes) b = static_cast<std::byte>(random.next());
    bytes[0] = static_cast<std::byte>(random.below(7));
    if (bytes.size() > 1) bytes[1] = static_cast<std::byte>(random.below(3));
    if (const auto frame = ParseMessageFrame(bytes)) {
      EXPECT_LE(frame->payload.size(), bytes.size());
    }
  }
}

// Valid frames in a random order and with random small fields: whatever happens is a failure with a
// status, not a crash, and never a completion of the receive with other than 16 bytes.
TEST(Malformed, RandomValidFrames) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    SimFabricOptions options;
    options.max_frame_bytes = 512;
    SimFabric fabric(options);
    MessengerOptions few;
    few.eager_credits = 2;
    Messenger messenger(fabric.transport(0), GroupKey{1, 2}, 0,
                        {fabric.transport(0).address(), fabric.transport(1).address()}, few);
    Link* enemy = fabric.transport(1)
                      .open(LinkId{1, 2, 1, 0}, fabric.transport(0).address(),
                            std::chrono::seconds(1), fabric.now())
                      .value();
    Random random(seed);
    std::vector<Payload> payloads;
    payloads.reserve(6);
    for (uint64_t i = 0; i < 6; ++i) {
      Payload& payload = payloads.emplace_back(random.chance(0.5) ? 16 : 5000);
      if (random.chance(0.5)) {
        messenger.send(fabric.now(), 1, PointToPointTag(i), PrintOf(1), payload.slice(), i);
      } else {
        messenger.recv(fabric.now(), 1, PointToPointTag(i), PrintOf(1), payload.slice(), i);
      }
    }
    const Payload message(16);
    for (int i = 0; i < 100; ++i) {
      MessageFrame frame = FrameOf(static_cast<MessageType>(1 + random.below(5)),
                                   PointToPointTag(random.below(8)), random.chance(0.5));
      if (frame.type == MessageType::kStarved || frame.type == MessageType::kCredit) {
        frame.flag = false;
      }
      if (frame.type == MessageType::kEager) frame.payload = message.bytes;
      frame.length = random.chance(0.5) || frame.type == MessageType::kEager ? 16 : 5000;
      frame.slice = {0, frame.length, random.below(5)};
      frame.credits = static_cast<uint16_t>(random.chance(0.9) ? 0 : 1);
      enemy->send_frame(Encode(frame));
    }
    RunUntil(
        fabric,
        [&](uint32_t endpoint, Instant now) {
          Event event;
          while (fabric.transport(endpoint).poll(now, {&event, 1}) > 0) {
            if (endpoint == 0) messenger.on_event(now, event);
          }
          if (endpoint == 0) messenger.flush(now);
          return kNever;
        },
        [] { return false; }, std::chrono::milliseconds(10));
    ASSERT_NE(messenger.failure(), nullptr) << seed;
    messenger.fail(messenger.failure()->status);
  }
}

}  // namespace
}  // namespace rocecoll
