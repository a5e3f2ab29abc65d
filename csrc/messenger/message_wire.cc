// SPDX-License-Identifier: Apache-2.0
#include "messenger/message_wire.h"

#include <algorithm>

#include "base/bytes.h"
#include "base/enum_table.h"

namespace rocecoll {
namespace {

constexpr size_t kRetireHeaderBytes = 4;
constexpr size_t kTagRunBytes = 12;

bool NamesMessage(MessageType type) {
  return type == MessageType::kEager || type == MessageType::kClearToSend ||
         type == MessageType::kPending;
}

}  // namespace

std::optional<MessageFrame> ParseMessageFrame(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  MessageFrame frame;
  const auto type = EnumeratorOf<MessageType, 1>(reader.Read<uint8_t>());
  const auto flag = reader.Read<uint8_t>();
  frame.credits = reader.Read<uint16_t>();
  if (!reader.ok() || !type || flag > 1) return std::nullopt;
  frame.type = *type;
  frame.flag = flag == 1;
  if (frame.type == MessageType::kRetire) {
    frame.payload = reader.ReadBytes(reader.remaining());
    if (frame.payload.size() % kTagRunBytes != 0) return std::nullopt;
    return frame;
  }
  if (!NamesMessage(frame.type)) {
    if (frame.flag || reader.remaining() > 0) return std::nullopt;
    return frame;
  }
  frame.tag.step = reader.Read<uint32_t>();
  frame.tag.operation = reader.Read<uint64_t>();
  frame.tag.slot = reader.Read<uint32_t>();
  const auto zero = reader.Read<uint32_t>();
  frame.length = reader.Read<uint64_t>();
  std::ranges::copy(reader.ReadBytes(frame.fingerprint.size()), frame.fingerprint.begin());
  if (!reader.ok() || zero != 0) return std::nullopt;
  if (frame.type == MessageType::kEager) {
    if (frame.length != reader.remaining()) return std::nullopt;
    frame.payload = reader.ReadBytes(reader.remaining());
  } else if (frame.type == MessageType::kClearToSend && frame.flag) {
    frame.slice = RemoteSlice::load(reader);
    if (frame.slice.length > frame.length || frame.slice.length == 0) return std::nullopt;
  }
  if (!reader.ok() || reader.remaining() > 0) return std::nullopt;
  return frame;
}

std::optional<std::vector<TagRun>> ParseTagRuns(std::span<const std::byte> payload) {
  std::vector<TagRun> runs;
  runs.reserve(payload.size() / kTagRunBytes);
  ByteReader reader(payload);
  while (reader.remaining() > 0) {
    TagRun run;
    run.first = reader.Read<uint32_t>();
    run.last = reader.Read<uint32_t>();
    run.count = reader.Read<uint32_t>();
    if (!reader.ok() || run.first > run.last) return std::nullopt;
    if (run.last > Tag::kLargestUserTag) return std::nullopt;
    if (!runs.empty() && run.first <= runs.back().last) return std::nullopt;
    runs.push_back(run);
  }
  return runs;
}

std::vector<std::byte> EncodeTagRuns(std::span<const TagRun> runs) {
  std::vector<std::byte> payload(runs.size() * kTagRunBytes);
  ByteWriter writer(payload);
  for (const TagRun& run : runs) {
    writer.Write(run.first);
    writer.Write(run.last);
    writer.Write(run.count);
  }
  return payload;
}

size_t MaxTagRuns(size_t frame_bytes) { return (frame_bytes - kRetireHeaderBytes) / kTagRunBytes; }

std::span<const std::byte> WriteMessageHead(std::span<std::byte, MessageFrame::kMaxControlBytes> to,
                                            const MessageFrame& frame) {
  ByteWriter writer(to);
  writer.Write(static_cast<uint8_t>(frame.type));
  writer.Write(static_cast<uint8_t>(frame.flag));
  writer.Write(frame.credits);
  if (!NamesMessage(frame.type)) return writer.written();
  writer.Write(frame.tag.step);
  writer.Write(frame.tag.operation);
  writer.Write(frame.tag.slot);
  writer.Write(uint32_t{0});
  writer.Write(frame.length);
  writer.WriteBytes(frame.fingerprint);
  if (frame.type == MessageType::kClearToSend && frame.flag) frame.slice.store(writer);
  return writer.written();
}

}  // namespace rocecoll
