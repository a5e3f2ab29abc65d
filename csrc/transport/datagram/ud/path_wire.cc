// SPDX-License-Identifier: Apache-2.0
#include "transport/datagram/ud/path_wire.h"

#include <algorithm>

#include "base/bytes.h"
#include "base/check.h"
#include "base/enum_table.h"

namespace rocecoll {
namespace {

bool IsVerified(std::span<const std::byte> datagram, PacketType type) {
  const auto header = ParsePacketHeader(datagram);
  return header && header->type == type && VerifyPacket(datagram);
}

}  // namespace

size_t WriteHello(std::span<std::byte> to, const PathHello& hello) {
  ROCECOLL_CHECK(to.size() >= PathHello::kWireBytes);
  const auto datagram = to.first(PathHello::kWireBytes);
  std::ranges::fill(datagram, std::byte{0});
  ByteWriter body(datagram.subspan(WritePacketHeader(datagram, {PacketType::kHello, 0, 0})));
  body.Write(static_cast<uint8_t>(hello.message));
  body.Write(static_cast<uint8_t>(hello.port));
  body.Write(static_cast<uint8_t>(hello.knows_receiver));
  body.Write(static_cast<uint8_t>(hello.address.bytes().size()));
  body.Write(hello.datagram_bytes);
  body.Write(hello.nonce);
  body.Write(hello.mark);
  body.WriteBytes(hello.address.bytes());
  SealPacket(datagram, {});
  return datagram.size();
}

size_t WriteProbe(std::span<std::byte> to, const PathProbe& probe) {
  ROCECOLL_CHECK(to.size() >= PathProbe::kWireBytes);
  std::ranges::fill(to, std::byte{0});
  ByteWriter body(to.subspan(WritePacketHeader(to, {PacketType::kProbe, 0, 0})));
  body.Write(static_cast<uint64_t>(probe.message));
  body.Write(probe.nonce);
  SealPacket(to, {});
  return to.size();
}

std::optional<PathHello> ParseHello(std::span<const std::byte> datagram) {
  if (datagram.size() != PathHello::kWireBytes || !IsVerified(datagram, PacketType::kHello)) {
    return std::nullopt;
  }
  ByteReader body(datagram.subspan(kPacketHeaderBytes));
  PathHello hello;
  const auto message = EnumeratorOf<PathMessage, 1>(body.Read<uint8_t>());
  const auto port = EnumeratorOf<PathHello::Port>(body.Read<uint8_t>());
  const auto knows_receiver = body.Read<uint8_t>();
  const auto address_bytes = body.Read<uint8_t>();
  hello.datagram_bytes = body.Read<uint32_t>();
  hello.nonce = body.Read<uint64_t>();
  hello.mark = body.Read<uint64_t>();
  if (!message || !port || knows_receiver > 1 || address_bytes > Address::kMaxBytes) {
    return std::nullopt;
  }
  hello.message = *message;
  hello.port = *port;
  hello.knows_receiver = knows_receiver == 1;
  hello.address = Address(body.ReadBytes(address_bytes), {});
  ROCECOLL_CHECK(body.ok());
  return hello;
}

std::optional<PathProbe> ParseProbe(std::span<const std::byte> datagram) {
  if (datagram.size() < PathProbe::kWireBytes || !IsVerified(datagram, PacketType::kProbe)) {
    return std::nullopt;
  }
  ByteReader body(datagram.subspan(kPacketHeaderBytes));
  const auto first = body.Read<uint64_t>();
  const auto message = EnumeratorOf<PathMessage, 1>(static_cast<uint8_t>(first));
  if (!message || first > UINT8_MAX) return std::nullopt;
  return PathProbe{*message, body.Read<uint64_t>()};
}

}  // namespace rocecoll
