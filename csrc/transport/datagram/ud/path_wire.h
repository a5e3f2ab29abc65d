// SPDX-License-Identifier: Apache-2.0
// HELLO and PROBE: how two processes find out whether datagrams get through between their UD
// ports. docs/protocol.md ("Two paths") has the layout. Both are questions and answers that echo
// the question's random nonce, and no answer is longer than its question.
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
  uint32_t datagram_bytes = 0;  // largest that the sender's UD port takes
  uint64_t nonce = 0;
  uint64_t mark = 0;  // the asker's own, echoed
  Address address;    // of the sender's UD port
};

struct PathProbe {
  static constexpr size_t kWireBytes = kPacketHeaderBytes + 16;
  PathMessage message = PathMessage::kQuestion;
  uint64_t nonce = 0;
};

// True for what may be one of these: cheap, to be asked of every datagram.
inline bool IsPathPacket(std::span<const std::byte> datagram) {
  return datagram.size() >= kPacketHeaderBytes &&
         (datagram[1] == static_cast<std::byte>(PacketType::kHello) ||
          datagram[1] == static_cast<std::byte>(PacketType::kProbe));
}

// Whole datagrams, sealed; return their size. `to` of a probe is all of it, padding included.
size_t WriteHello(std::span<std::byte> to, const PathHello& hello);
size_t WriteProbe(std::span<std::byte> to, const PathProbe& probe);
// Whole datagrams, verified. nullopt for anything else.
std::optional<PathHello> ParseHello(std::span<const std::byte> datagram);
std::optional<PathProbe> ParseProbe(std::span<const std::byte> datagram);

}  // namespace rocecoll
