// SPDX-License-Identifier: Apache-2.0
#include "transport/datagram/reliability/packet_wire.h"

#include <algorithm>
#include <array>

#include "base/bytes.h"
#include "base/crc32c.h"
#include "base/enum_table.h"

namespace rocecoll {
namespace {

constexpr std::array<std::byte, kIntegrityBytes> kZeroIntegrity{};

uint32_t PacketCrc(std::span<const std::byte> header_and_control,
                   std::span<const std::byte> payload) {
  ROCECOLL_CHECK(header_and_control.size() >= kPacketHeaderBytes);
  uint32_t crc = Crc32c(header_and_control.first(kIntegrityOffset));
  crc = Crc32c(kZeroIntegrity, crc);
  crc = Crc32c(header_and_control.subspan(kPacketHeaderBytes), crc);
  return payload.empty() ? crc : Crc32c(payload, crc);
}

// `covered` is written into the header: how many bytes from its start the CRC covers; 0 means all.
void Seal(std::span<std::byte> header_and_control, std::span<const std::byte> payload,
          uint16_t covered) {
  ROCECOLL_CHECK(header_and_control.size() >= kPacketHeaderBytes);
  StoreLe(&header_and_control[kCoveredOffset], covered);
  const uint32_t crc = PacketCrc(header_and_control, payload);
  ByteWriter writer(header_and_control.subspan(kIntegrityOffset, kIntegrityBytes));
  writer.Write(crc);
  writer.WriteBytes(std::span(kZeroIntegrity).subspan(sizeof(crc)));
}

// How many bytes of the datagram the CRC covers; nullopt if that excludes a part of the header or
// exceeds the datagram.
std::optional<size_t> CoveredBytes(std::span<const std::byte> datagram) {
  if (datagram.size() < kPacketHeaderBytes) return std::nullopt;
  ByteReader reader(datagram.subspan(kCoveredOffset));
  const size_t covered = reader.Read<uint16_t>();
  if (covered == 0) return datagram.size();
  if (covered < kPacketHeaderBytes || covered > datagram.size()) return std::nullopt;
  return covered;
}

}  // namespace

std::optional<PacketHeader> ParsePacketHeader(std::span<const std::byte> datagram) {
  ByteReader reader(datagram);
  const auto version = reader.Read<uint8_t>();
  const auto type = EnumeratorOf<PacketType, 1>(reader.Read<uint8_t>());
  const auto covered = reader.Read<uint16_t>();
  const auto key_epoch = reader.Read<uint32_t>();
  PacketHeader header;
  header.connection_id = reader.Read<uint64_t>();
  header.packet_number = reader.Read<uint64_t>();
  reader.ReadBytes(kIntegrityBytes);
  if (!reader.ok() || version != kProtocolVersion || !type || key_epoch != 0) {
    return std::nullopt;
  }
  if (covered != 0 && (type != PacketType::kPacket || !CoveredBytes(datagram))) return std::nullopt;
  header.type = *type;
  return header;
}

std::optional<InitBody> ParseInitBody(std::span<const std::byte> datagram) {
  if (datagram.size() < kPacketHeaderBytes) return std::nullopt;
  ByteReader reader(datagram.subspan(kPacketHeaderBytes));
  InitBody body;
  body.link.group = GroupKey::load(reader);
  body.link.local = reader.Read<uint32_t>();
  body.link.remote = reader.Read<uint32_t>();
  body.source_id = reader.Read<uint64_t>();
  body.destination_id = reader.Read<uint64_t>();
  if (!reader.ok() || body.source_id == 0) return std::nullopt;
  return body;
}

std::optional<NotOpenBody> ParseNotOpenBody(std::span<const std::byte> datagram) {
  if (datagram.size() != kPacketHeaderBytes + NotOpenBody::kWireBytes) return std::nullopt;
  ByteReader reader(datagram.subspan(kPacketHeaderBytes));
  const NotOpenBody body{reader.Read<uint64_t>()};
  if (body.process == 0) return std::nullopt;
  return body;
}

size_t WritePacketHeader(std::span<std::byte> to, const PacketHeader& header) {
  ROCECOLL_CHECK(to.size() >= kPacketHeaderBytes);
  ByteWriter writer(to);
  writer.Write(kProtocolVersion);
  writer.Write(static_cast<uint8_t>(header.type));
  writer.Write(uint16_t{0});  // covered: all
  writer.Write(uint32_t{0});
  writer.Write(header.connection_id);
  writer.Write(header.packet_number);
  writer.WriteBytes(kZeroIntegrity);
  ROCECOLL_CHECK(writer.size() == kPacketHeaderBytes);
  return kPacketHeaderBytes;
}

void SealPacket(std::span<std::byte> header_and_control, std::span<const std::byte> payload) {
  Seal(header_and_control, payload, 0);
}

bool HasSealedHeaders(std::span<const std::byte> header_and_control) {
  ROCECOLL_CHECK(header_and_control.size() >= kPacketHeaderBytes);
  return LoadLe<uint16_t>(&header_and_control[kCoveredOffset]) != 0;
}

void SealHeaders(std::span<std::byte> header_and_control) {
  const size_t covered = std::min(header_and_control.size(), kSealedHeaderBytes);
  Seal(header_and_control.first(covered), {}, static_cast<uint16_t>(covered));
}

bool VerifyPacket(std::span<const std::byte> datagram) {
  const std::optional<size_t> covered = CoveredBytes(datagram);
  if (!covered) return false;
  ByteReader reader(datagram.subspan(kIntegrityOffset, kIntegrityBytes));
  const auto crc = reader.Read<uint32_t>();
  const bool rest_is_zero = reader.Read<uint32_t>() == 0 && reader.Read<uint64_t>() == 0;
  return rest_is_zero && crc == PacketCrc(datagram.first(*covered), {});
}

}  // namespace rocecoll
