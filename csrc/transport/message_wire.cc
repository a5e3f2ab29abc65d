// SPDX-License-Identifier: Apache-2.0
#include "transport/message_wire.h"

#include <algorithm>

#include "base/bytes.h"

namespace rocecoll {
namespace {

bool NamesMessage(MessageType type) {
  return type == MessageType::kEager || type == MessageType::kClearToSend ||
         type == MessageType::kPending;
}

}  // namespace

std::optional<MessageFrame> ParseMessageFrame(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  MessageFrame frame;
  const auto type = reader.Read<uint8_t>();
  const auto flag = reader.Read<uint8_t>();
  frame.credits = reader.Read<uint16_t>();
  if (!reader.ok() || type < static_cast<uint8_t>(MessageType::kEager) ||
      type > static_cast<uint8_t>(MessageType::kListening) || flag > 1) {
    return std::nullopt;
  }
  frame.type = static_cast<MessageType>(type);
  frame.flag = flag == 1;
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
    if (frame.slice.length != frame.length || frame.length == 0) return std::nullopt;
  }
  if (!reader.ok() || reader.remaining() > 0) return std::nullopt;
  return frame;
}

size_t WriteMessageFrame(std::span<std::byte> to, const MessageFrame& frame) {
  ByteWriter writer(to);
  writer.Write(static_cast<uint8_t>(frame.type));
  writer.Write(static_cast<uint8_t>(frame.flag));
  writer.Write(frame.credits);
  if (!NamesMessage(frame.type)) return writer.size();
  writer.Write(frame.tag.step);
  writer.Write(frame.tag.operation);
  writer.Write(frame.tag.slot);
  writer.Write(uint32_t{0});
  writer.Write(frame.length);
  writer.WriteBytes(frame.fingerprint);
  if (frame.type == MessageType::kEager) {
    writer.WriteBytes(frame.payload);
  } else if (frame.type == MessageType::kClearToSend && frame.flag) {
    frame.slice.store(writer);
  }
  return writer.size();
}

}  // namespace rocecoll
