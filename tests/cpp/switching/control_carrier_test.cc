// SPDX-License-Identifier: Apache-2.0
// What goes over the control path, in which order, while that has room and while it has none.
#include "transport/fast_paths/switching/control_carrier.h"

#include <gtest/gtest.h>

#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "transport/fast_paths/switching/switching_context.h"

namespace rocecoll {
namespace {

// Keeps what is sent, as long as there is room.
struct RoomyLink final : Link {
  size_t room = 1000;
  std::vector<WireBytes> sent;

  LinkId id() const override { return {}; }
  bool send_frame(const FrameBytes& frame) override {
    if (room == 0) return false;
    --room;
    frame.append_to(sent.emplace_back());
    return true;
  }
  uint64_t unsent_frames() const override { return 0; }
  bool write(const RemoteSlice& /*to*/, LocalSlice /*from*/, uint32_t /*token*/) override {
    return false;
  }
  RemoteSlice expose(LocalSlice /*into*/, uint32_t /*token*/) override { return {}; }
  void unexpose(const RemoteSlice& /*slice*/) override {}
  void close(const Status& /*why*/) override {}
  const Status& status() const override { return status_; }

 private:
  Status status_;
};

class ControlCarrierTest : public testing::Test {
 protected:
  static constexpr size_t kControlFrameBytes = 11;  // a type and 10 bytes of a frame
  static constexpr size_t kMaxFrameBytes = 30;

  ControlType type(size_t i) const { return static_cast<ControlType>(link_.sent[i].front()); }
  static WireBytes Frame(size_t size) {
    WireBytes frame(size);
    for (size_t i = 0; i < size; ++i) frame[i] = static_cast<std::byte>(i);
    return frame;
  }
  // What another carrier makes of what was sent.
  std::optional<WireBytes> received() {
    ControlCarrier peer(context_, link_);
    for (const WireBytes& sent : link_.sent) {
      const auto body = std::span<const std::byte>(sent).subspan(1);
      if (static_cast<ControlType>(sent.front()) == ControlType::kFrame) {
        const auto whole = peer.on_last_piece(body);
        return WireBytes{whole.begin(), whole.end()};
      }
      EXPECT_EQ(static_cast<ControlType>(sent.front()), ControlType::kPiece);
      if (!peer.on_piece(body)) return std::nullopt;
    }
    return std::nullopt;
  }

  SwitchingContext context_{{.words = {}, .max_frame_bytes = kMaxFrameBytes}, kControlFrameBytes};
  RoomyLink link_;
  ControlCarrier carrier_{context_, link_};
  std::deque<WireBytes> frames_;
};

TEST_F(ControlCarrierTest, SendsFramesOfAnySizeInPiecesThatFit) {
  for (size_t size = 1; size <= kMaxFrameBytes; ++size) {
    link_.sent.clear();
    frames_ = {Frame(size)};
    ASSERT_TRUE(carrier_.pump_frames(frames_, true));
    EXPECT_TRUE(frames_.empty());
    EXPECT_EQ(link_.sent.size(), (size + 9) / 10);
    for (const WireBytes& sent : link_.sent) EXPECT_LE(sent.size(), kControlFrameBytes);
    EXPECT_EQ(received(), Frame(size));
  }
}

TEST_F(ControlCarrierTest, GoesOnWithAFrameWhereItHadNoRoom) {
  frames_ = {Frame(30)};
  link_.room = 1;
  EXPECT_FALSE(carrier_.pump_frames(frames_, true));
  EXPECT_TRUE(carrier_.amid_frame());
  link_.room = 2;
  EXPECT_TRUE(carrier_.pump_frames(frames_, true));
  EXPECT_FALSE(carrier_.amid_frame());
  EXPECT_EQ(received(), Frame(30));
}

TEST_F(ControlCarrierTest, EndsABegunFrameAndSaysMovedBeforeTheFastPathHasTheRest) {
  frames_ = {Frame(20), Frame(20)};
  link_.room = 1;
  EXPECT_FALSE(carrier_.pump_frames(frames_, true));
  carrier_.owe_moved(3);
  carrier_.say(WriteReady(3));
  link_.room = 1000;
  EXPECT_FALSE(carrier_.pump_moved());
  EXPECT_TRUE(carrier_.pump_said());
  EXPECT_TRUE(carrier_.pump_frames(frames_, false));
  EXPECT_EQ(frames_.size(), 1u);
  EXPECT_TRUE(carrier_.pump_moved());
  EXPECT_FALSE(carrier_.owes_moved());
  ASSERT_EQ(link_.sent.size(), 4u);
  EXPECT_EQ(type(0), ControlType::kPiece);
  EXPECT_EQ(type(1), ControlType::kReady);
  EXPECT_EQ(type(2), ControlType::kFrame);
  EXPECT_EQ(ParseGeneration(link_.sent[3]), 3u);
}

TEST_F(ControlCarrierTest, TakesAFrameWholeOnlyWhereItFitsAndNothingWaits) {
  EXPECT_TRUE(carrier_.takes(Frame(10)));
  EXPECT_FALSE(carrier_.takes(Frame(11)));
  EXPECT_TRUE(carrier_.send(Frame(10)));
  EXPECT_EQ(received(), Frame(10));
  carrier_.say(WriteReady(1));
  EXPECT_FALSE(carrier_.takes(Frame(10)));
}

TEST_F(ControlCarrierTest, RefusesFramesThatNobodyMaySend) {
  EXPECT_TRUE(carrier_.on_last_piece({}).empty());
  EXPECT_TRUE(carrier_.on_last_piece(Frame(kMaxFrameBytes + 1)).empty());
  EXPECT_TRUE(carrier_.on_piece(Frame(kMaxFrameBytes)));
  EXPECT_FALSE(carrier_.on_piece(Frame(1)));
  EXPECT_TRUE(carrier_.on_last_piece(Frame(1)).empty());
}

}  // namespace
}  // namespace rocecoll
