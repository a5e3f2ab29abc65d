// SPDX-License-Identifier: Apache-2.0
// The packet header, which the demultiplexer reads. docs/protocol.md describes the same table in
// prose.
//
//   offset  size  field
//        0     1  version, kProtocolVersion
//        1     1  type, PacketType
//        2     2  covered: how many bytes from the start the CRC covers, at least the header; zero
//                 means all of them. Other than zero only in PACKET
//        4     4  key epoch, zero (authentication will count it)
//        8     8  destination connection id; zero except in PACKET, RESET and NOT_OPEN
//       16     8  packet number, never reused within a connection; zero except in INIT and PACKET
//       24    16  integrity: CRC32C of the covered bytes with these 16 bytes as zero, then 12 zero
//                 bytes. A 128-bit authentication tag will take the same place.
//       40        body: sub-frames (INIT, PACKET: reliability/frame_wire.h), the notice, the
//                 process (NOT_OPEN), or as in ud/path_wire.h (HELLO, PROBE)
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "transport/transport.h"

namespace rocecoll {

inline constexpr uint8_t kProtocolVersion = 1;
inline constexpr size_t kPacketHeaderBytes = 40;
inline constexpr size_t kCoveredOffset = 2;
inline constexpr size_t kIntegrityOffset = 24;
inline constexpr size_t kIntegrityBytes = 16;

enum class PacketType : uint8_t {
  kInit = 1,     // opens a connection, or answers an INIT; body starts with InitBody
  kPacket = 2,   // everything between two ends that know each other's id
  kReset = 3,    // the sender knows no connection with this id. Only the connection's peer, and
                 // anyone who has seen its packets, can name the id
  kNotice = 4,   // Transport::notify
  kHello = 5,    // over UDP: the address of the sender's second port, if it has one
  kProbe = 6,    // between second ports: asks whether this path works
  kNotOpen = 7,  // answers an INIT: the sender's process lives, but has not opened this link. The
                 // id is the INIT's source id; the body names the process (NotOpenBody)
};

struct PacketHeader {
  PacketType type = PacketType::kPacket;
  uint64_t connection_id = 0;
  uint64_t packet_number = 0;
};

// The beginning of the body of INIT: which link, and the sender's connection id for it.
struct InitBody {
  static constexpr size_t kWireBytes = 24 + 8 + 8;
  LinkId link;                  // as the sender names it
  uint64_t source_id = 0;       // the sender's connection id
  uint64_t destination_id = 0;  // the receiver's, zero while unknown to the sender
};

// The body of NOT_OPEN.
struct NotOpenBody {
  static constexpr size_t kWireBytes = 8;
  uint64_t process = 0;  // the sender's Address::process(); not zero
};

// nullopt for anything that is not one of our packets: too short, another version, an unknown type.
std::optional<PacketHeader> ParsePacketHeader(std::span<const std::byte> datagram);
std::optional<InitBody> ParseInitBody(std::span<const std::byte> datagram);
std::optional<NotOpenBody> ParseNotOpenBody(std::span<const std::byte> datagram);
// Writes the header with zero integrity bytes; returns kPacketHeaderBytes.
size_t WritePacketHeader(std::span<std::byte> to, const PacketHeader& header);
// Stores the CRC32C over `header_and_control`, then `payload`, in the integrity field. Also works
// on a packet whose headers alone were sealed.
void SealPacket(std::span<std::byte> header_and_control, std::span<const std::byte> payload);
// The same for a packet whose carrier checks what it delivers (DatagramPort::checks_payload()): the
// CRC only shows that the packet is ours. It covers only the beginning of `header_and_control`,
// which contains the headers; the header says so.
inline constexpr size_t kSealedHeaderBytes = 256;
void SealHeaders(std::span<std::byte> header_and_control);
// Whether a packet of ours was sealed by SealHeaders().
bool HasSealedHeaders(std::span<const std::byte> header_and_control);
bool VerifyPacket(std::span<const std::byte> datagram);

}  // namespace rocecoll
