// SPDX-License-Identifier: Apache-2.0
#include "transport/datagram/reliability/frame_wire.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "reliability/connection_pair.h"

namespace rocecoll {
namespace {

AckFrame SampleAck() {
  AckFrame ack;
  ack.delay = microseconds(123);
  ack.arrived_us = 0xfedcba98;
  ack.receive_window = 1 << 20;
  ack.marked_packets = 0xfffffff0;
  ack.range_count = 3;
  ack.ranges[0] = {90, 101};
  ack.ranges[1] = {50, 51};
  ack.ranges[2] = {0, 40};
  return ack;
}

std::vector<std::byte> SampleBody() {
  std::vector<std::byte> bytes(1000);
  ByteWriter writer{std::span<std::byte>(bytes)};
  WriteAck(writer, SampleAck());
  EXPECT_EQ(writer.size(), AckBytes(3));
  WriteSettled(writer, 77);
  const auto frame = TestBytes(30, 1);
  WriteFrame(writer, {5, frame, /*ends=*/false});
  WriteFrame(writer, {6, std::span(frame).first(1)});
  WriteClose(writer, {StatusCode::kAborted, 5, 7, "why"});
  WritePing(writer);
  const auto payload = TestBytes(50, 2);
  WriteDataHeader(writer, {11, 22, 33, payload});
  writer.WriteBytes(payload);
  bytes.resize(writer.size());
  return bytes;
}

TEST(FrameWire, EverySubFrameSurvivesTheRoundTrip) {
  const auto bytes = SampleBody();
  PacketBody body;
  ASSERT_TRUE(ParsePacketBody(bytes, body));
  ASSERT_TRUE(body.has_ack);
  EXPECT_EQ(body.ack.delay, microseconds(123));
  EXPECT_EQ(body.ack.arrived_us, 0xfedcba98u);
  EXPECT_EQ(body.ack.receive_window, 1u << 20);
  EXPECT_EQ(body.ack.marked_packets, 0xfffffff0u);
  ASSERT_EQ(body.ack.range_count, 3u);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(body.ack.ranges[i], SampleAck().ranges[i]);
  EXPECT_EQ(body.settled, 77u);
  ASSERT_EQ(body.frames.size(), 2u);
  EXPECT_EQ(body.frames[1].sequence, 6u);
  EXPECT_FALSE(body.frames[0].ends);
  EXPECT_TRUE(body.frames[1].ends);
  EXPECT_EQ(body.frames[0].bytes.size(), 30u);
  ASSERT_TRUE(body.close);
  EXPECT_EQ(body.close->code, StatusCode::kAborted);
  EXPECT_EQ(body.close->reporter, 5u);
  EXPECT_EQ(body.close->final_sequence, 7u);
  EXPECT_EQ(body.close->message, "why");
  EXPECT_TRUE(body.ping);
  ASSERT_TRUE(body.data);
  EXPECT_EQ(body.data->offset, 33u);
  EXPECT_EQ(body.data->payload.size(), 50u);
  EXPECT_TRUE(body.eliciting());
}

TEST(FrameWire, EveryCutOutsideThePayloadIsRefusedOrAtABoundary) {
  const auto bytes = SampleBody();
  PacketBody body;
  size_t accepted = 0;
  for (size_t size = 0; size + 50 <= bytes.size(); ++size) {
    if (ParsePacketBody(std::span(bytes).first(size), body)) ++accepted;
  }
  // These are ACK, SETTLED, two FRAMEs, CLOSE and PING; a DATA header without payload is refused.
  EXPECT_EQ(accepted, 6u);
}

TEST(FrameWire, RefusesEmptyRepeatedAndUnknown) {
  PacketBody body;
  EXPECT_FALSE(ParsePacketBody({}, body));
  for (int type : {0, 8, 255}) {
    const std::vector<std::byte> unknown{static_cast<std::byte>(type)};
    EXPECT_FALSE(ParsePacketBody(unknown, body));
  }
  std::vector<std::byte> twice(200);
  ByteWriter writer{std::span<std::byte>(twice)};
  WriteAck(writer, SampleAck());
  const size_t once = writer.size();
  WriteAck(writer, SampleAck());
  EXPECT_TRUE(ParsePacketBody(std::span(twice).first(once), body));
  EXPECT_FALSE(body.eliciting());
  EXPECT_FALSE(ParsePacketBody(std::span(twice).first(writer.size()), body));
}

TEST(FrameWire, PaddingFillsTheDatagramAndSaysNothing) {
  std::vector<std::byte> bytes(1000, std::byte{1});
  ByteWriter writer{std::span<std::byte>(bytes)};
  WritePing(writer);
  WritePadding(writer, writer.room());
  EXPECT_EQ(writer.size(), bytes.size());
  PacketBody body;
  ASSERT_TRUE(ParsePacketBody(bytes, body));
  EXPECT_TRUE(body.ping);
  EXPECT_TRUE(ParsePacketBody(std::span(bytes).subspan(1), body));
  EXPECT_FALSE(body.eliciting());
}

TEST(FrameWire, RefusesAcknowledgementsBelowZero) {
  std::vector<std::byte> bytes(100);
  ByteWriter writer{std::span<std::byte>(bytes)};
  WriteAck(writer, SampleAck());
  bytes.resize(writer.size());
  PacketBody body;
  ASSERT_TRUE(ParsePacketBody(bytes, body));
  auto bad = bytes;
  StoreLe<uint32_t>(&bad[30], 102);  // the first range reaches below zero
  EXPECT_FALSE(ParsePacketBody(bad, body));
  bad = bytes;
  StoreLe<uint32_t>(&bad[42], 0);  // no gap before the third
  EXPECT_FALSE(ParsePacketBody(bad, body));
  bad = bytes;
  StoreLe<uint32_t>(&bad[46], 41);  // the third reaches below zero
  EXPECT_FALSE(ParsePacketBody(bad, body));
  bad = bytes;
  StoreLe<uint64_t>(&bad[22], UINT64_MAX);
  EXPECT_FALSE(ParsePacketBody(bad, body));
  for (int count : {0, 2, 4, 129, 255}) {
    bad = bytes;
    bad[1] = static_cast<std::byte>(count);
    EXPECT_FALSE(ParsePacketBody(bad, body)) << count;
  }
}

TEST(FrameWire, ParsesAnyNoiseWithoutReadingOutside) {
  Random random(1);
  PacketBody body;
  for (int i = 0; i < 100000; ++i) {
    auto noise = TestBytes(1 + random.below(60), random.next());
    noise[0] = static_cast<std::byte>(random.below(9));
    if (!ParsePacketBody(noise, body)) continue;
    for (const FrameField& frame : body.frames) {
      ASSERT_GE(frame.bytes.data(), noise.data());
      ASSERT_LE(frame.bytes.data() + frame.bytes.size(), noise.data() + noise.size());
    }
  }
}

}  // namespace
}  // namespace rocecoll
