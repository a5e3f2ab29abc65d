// SPDX-License-Identifier: Apache-2.0
#include "transport/datagram/reliability/frame_wire.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "transport/datagram/reliability/packet_wire.h"

namespace rocecoll {
namespace {

constexpr uint64_t kMaxU32 = std::numeric_limits<uint32_t>::max();

bool ParseAck(ByteReader& reader, AckFrame& ack) {
  ack.range_count = reader.Read<uint8_t>();
  ack.delay = std::chrono::microseconds(reader.Read<uint32_t>());
  ack.arrived_us = reader.Read<uint32_t>();
  ack.receive_window = reader.Read<uint64_t>();
  ack.marked_packets = reader.Read<uint32_t>();
  const auto largest = reader.Read<uint64_t>();
  const uint64_t first_length = reader.Read<uint32_t>();
  if (!reader.ok() || ack.range_count == 0 || ack.range_count > kMaxAckRanges) return false;
  if (largest == std::numeric_limits<uint64_t>::max()) return false;
  if (first_length == 0 || first_length > largest + 1) return false;
  ack.ranges[0] = {largest + 1 - first_length, largest + 1};
  for (size_t i = 1; i < ack.range_count; ++i) {
    const uint64_t gap = reader.Read<uint32_t>();
    const uint64_t length = reader.Read<uint32_t>();
    const uint64_t above = ack.ranges[i - 1].begin;
    if (gap == 0 || length == 0 || gap + length > above) return false;
    ack.ranges[i] = {above - gap - length, above - gap};
  }
  return reader.ok();
}

bool ParseFrame(ByteReader& reader, FrameField& frame) {
  const auto length = reader.Read<uint16_t>();
  frame.sequence = reader.Read<uint64_t>();
  frame.bytes = reader.ReadBytes(length);
  return reader.ok() && length > 0;
}

bool ParseClose(ByteReader& reader, CloseField& close) {
  const auto code = EnumeratorOf<StatusCode>(reader.Read<uint8_t>());
  const auto length = reader.Read<uint16_t>();
  close.reporter = reader.Read<uint32_t>();
  close.final_sequence = reader.Read<uint64_t>();
  const auto text = reader.ReadBytes(length);
  if (!reader.ok() || !code || length > kMaxCloseMessageBytes) return false;
  close.code = *code;
  close.message = {reinterpret_cast<const char*>(text.data()), text.size()};
  return true;
}

bool ParseData(ByteReader& reader, DataField& data) {
  data.region = reader.Read<uint64_t>();
  data.key = reader.Read<uint64_t>();
  data.offset = reader.Read<uint64_t>();
  data.payload = reader.ReadBytes(reader.remaining());
  return reader.ok() && !data.payload.empty();
}

bool ParseSubFrame(ByteReader& reader, PacketBody& out) {
  switch (static_cast<SubFrameType>(reader.Read<uint8_t>())) {
    case SubFrameType::kAck:
      if (out.has_ack) return false;
      out.has_ack = true;
      return ParseAck(reader, out.ack);
    case SubFrameType::kPing:
      out.ping = true;
      return true;
    case SubFrameType::kFrame:
      return ParseFrame(reader, out.frames.emplace_back());
    case SubFrameType::kPiece:
      out.frames.emplace_back().ends = false;
      return ParseFrame(reader, out.frames.back());
    case SubFrameType::kClose:
      return !out.close && ParseClose(reader, out.close.emplace());
    case SubFrameType::kData:
      return ParseData(reader, out.data.emplace());
    case SubFrameType::kSettled:
      if (out.settled) return false;
      out.settled = reader.Read<uint64_t>();
      return reader.ok();
    case SubFrameType::kPadding:
      reader.ReadBytes(reader.remaining());
      return true;
  }
  return false;
}

}  // namespace

bool ParsePacketBody(std::span<const std::byte> body, PacketBody& out) {
  out.has_ack = false;
  out.settled.reset();
  out.ping = false;
  out.frames.clear();
  out.close.reset();
  out.data.reset();
  if (body.empty()) return false;
  ByteReader reader(body);
  while (reader.remaining() > 0) {
    if (!ParseSubFrame(reader, out)) return false;
  }
  return reader.ok();
}

std::optional<InitParameters> ParseInitParameters(std::span<const std::byte> init_datagram) {
  constexpr size_t kBefore = kPacketHeaderBytes + InitBody::kWireBytes;
  if (init_datagram.size() != kBefore + InitParameters::kWireBytes) return std::nullopt;
  ByteReader reader(init_datagram.subspan(kBefore));
  InitParameters parameters;
  parameters.receive_window = reader.Read<uint64_t>();
  parameters.max_datagram_bytes = reader.Read<uint32_t>();
  const auto zero = reader.Read<uint32_t>();
  ROCECOLL_CHECK(reader.ok());
  return zero == 0 ? std::optional(parameters) : std::nullopt;
}

void WriteAck(ByteWriter& to, const AckFrame& ack) {
  ROCECOLL_CHECK(ack.range_count >= 1 && ack.range_count <= kMaxAckRanges);
  const auto delay_us = std::chrono::duration_cast<std::chrono::microseconds>(ack.delay).count();
  ROCECOLL_CHECK(delay_us >= 0);
  to.Write(static_cast<uint8_t>(SubFrameType::kAck));
  to.Write(static_cast<uint8_t>(ack.range_count));
  to.Write(static_cast<uint32_t>(std::min<uint64_t>(static_cast<uint64_t>(delay_us), kMaxU32)));
  to.Write(ack.arrived_us);
  to.Write(ack.receive_window);
  to.Write(ack.marked_packets);
  to.Write(ack.largest());
  for (size_t i = 0; i < ack.range_count; ++i) {
    const auto& range = ack.ranges[i];
    const uint64_t length = range.end - range.begin;
    ROCECOLL_CHECK(length > 0 && length <= kMaxU32);
    if (i > 0) {
      const uint64_t gap = ack.ranges[i - 1].begin - range.end;
      ROCECOLL_CHECK(gap > 0 && gap <= kMaxU32);
      to.Write(static_cast<uint32_t>(gap));
    }
    to.Write(static_cast<uint32_t>(length));
  }
}

void WritePing(ByteWriter& to) { to.Write(static_cast<uint8_t>(SubFrameType::kPing)); }

void WriteSettled(ByteWriter& to, uint64_t below) {
  to.Write(static_cast<uint8_t>(SubFrameType::kSettled));
  to.Write(below);
}

void WritePadding(ByteWriter& to, size_t bytes) {
  ROCECOLL_CHECK(bytes > 0);
  to.Write(static_cast<uint8_t>(SubFrameType::kPadding));
  for (size_t i = 1; i < bytes; ++i) to.Write(uint8_t{0});
}

void WriteFrame(ByteWriter& to, const FrameField& frame) {
  WriteFrameHeader(to, frame);
  to.WriteBytes(frame.bytes);
}

void WriteFrameHeader(ByteWriter& to, const FrameField& frame) {
  ROCECOLL_CHECK(!frame.bytes.empty());
  ROCECOLL_CHECK(frame.bytes.size() <= std::numeric_limits<uint16_t>::max());
  to.Write(static_cast<uint8_t>(frame.ends ? SubFrameType::kFrame : SubFrameType::kPiece));
  to.Write(static_cast<uint16_t>(frame.bytes.size()));
  to.Write(frame.sequence);
}

void WriteClose(ByteWriter& to, const CloseField& close) {
  ROCECOLL_CHECK(close.message.size() <= kMaxCloseMessageBytes);
  to.Write(static_cast<uint8_t>(SubFrameType::kClose));
  to.Write(static_cast<uint8_t>(close.code));
  to.Write(static_cast<uint16_t>(close.message.size()));
  to.Write(close.reporter);
  to.Write(close.final_sequence);
  to.WriteBytes(std::as_bytes(std::span(close.message)));
}

void WriteDataHeader(ByteWriter& to, const DataField& data) {
  ROCECOLL_CHECK(!data.payload.empty());
  to.Write(static_cast<uint8_t>(SubFrameType::kData));
  to.Write(data.region);
  to.Write(data.key);
  to.Write(data.offset);
}

void WriteInitParameters(ByteWriter& to, const InitParameters& parameters) {
  ROCECOLL_CHECK(to.room() >= InitParameters::kWireBytes);
  to.Write(parameters.receive_window);
  to.Write(parameters.max_datagram_bytes);
  to.Write(uint32_t{0});
}

}  // namespace rocecoll
