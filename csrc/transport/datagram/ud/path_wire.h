// SPDX-License-Identifier: Apache-2.0
// HELLO and PROBE, by which two processes find out whether datagrams get through between their UD
// ports. docs/protocol.md ("Two paths") has the layout. Both are questions and answers; an answer
// echoes the question's random nonce and is never longer than the question.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "transport/address.h"
#include "transport/datagram/reliability/packet_wire.h"

namespace rocecoll {

enum class PathMessage : uint8_t { kQuestion = 1, kAnswer = 2 };

struct PathHello {
  static constexpr size_t kWireBytes = kPacketHeaderBytes + 24 + Address::kMaxBytes;
  enum class Port : uint8_t { kNone = 0, kDown = 1, kUsable = 2 };

  PathMessage message = PathMessage::kQuestion;
  Port port = Port::kNone;      // the sender's UD port
  bool knows_receiver = false;  // the sender has the receiver's UD address
  uint32_t datagram_bytes = 0;  // the largest that the sender's UD port takes
  uint64_t nonce = 0;
  uint64_t mark = 0;  // chosen by the asker and echoed
  Address address;    // of the sender's UD port
};

struct PathProbe {
  static constexpr size_t kWireBytes = kPacketHeaderBytes + 16;
  PathMessage message = PathMessage::kQuestion;
  uint64_t nonce = 0;
};

// True for datagrams that may be one of these. Cheap, since it is called for every datagram.
inline bool IsPathPacket(std::span<const std::byte> datagram) {
  return datagram.size() >= kPacketHeaderBytes &&
         (datagram[1] == static_cast<std::byte>(PacketType::kHello) ||
          datagram[1] == static_cast<std::byte>(PacketType::kProbe));
}

// Write whole, sealed datagrams and return their size. A probe fills all of `to`, with padding.
size_t WriteHello(std::span<std::byte> to, const PathHello& hello);
size_t WriteProbe(std::span<std::byte> to, const PathProbe& probe);
// Verify and parse whole datagrams; nullopt for anything else.
std::optional<PathHello> ParseHello(std::span<const std::byte> datagram);
std::optional<PathProbe> ParseProbe(std::span<const std::byte> datagram);

}  // namespace rocecoll
