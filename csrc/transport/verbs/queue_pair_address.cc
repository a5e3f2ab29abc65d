// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/queue_pair_address.h"

#include <array>
#include <bit>
#include <cstring>

#include "base/bytes.h"
#include "base/check.h"

namespace rocecoll {
namespace {

constexpr uint8_t kVersion = 2;
constexpr size_t kBytes = 36;
constexpr uint32_t kNumberLimit = 1 << 24;

bool IsMtu(size_t bytes) { return std::has_single_bit(bytes) && bytes >= 256 && bytes <= 4096; }

}  // namespace

Address ToAddress(const QueuePairAddress& address) {
  std::array<std::byte, kBytes> bytes;
  ByteWriter writer(bytes);
  writer.Write(static_cast<uint8_t>(address.kind));
  writer.Write(kVersion);
  writer.Write(static_cast<uint16_t>(address.mtu_bytes));
  writer.Write(address.number);
  writer.Write(address.packet_number_or_key);
  writer.WriteBytes(std::as_bytes(std::span(address.gid.bytes)));
  writer.Write(address.extensions.vendor);
  writer.Write(address.extensions.options);
  return Address(bytes, ToText(address.gid) + " queue pair " + std::to_string(address.number));
}

Result<QueuePairAddress> ToQueuePairAddress(const Address& address, QueuePairAddress::Kind kind) {
  ByteReader reader(address.bytes());
  QueuePairAddress parsed;
  parsed.kind = kind;
  const auto kind_read = reader.Read<uint8_t>();
  const auto version = reader.Read<uint8_t>();
  parsed.mtu_bytes = reader.Read<uint16_t>();
  parsed.number = reader.Read<uint32_t>();
  parsed.packet_number_or_key = reader.Read<uint32_t>();
  const auto gid = reader.ReadBytes(parsed.gid.bytes.size());
  parsed.extensions.vendor = reader.Read<uint32_t>();
  parsed.extensions.options = reader.Read<uint32_t>();
  const bool connected = kind == QueuePairAddress::Kind::kConnected;
  if (!reader.ok() || reader.remaining() != 0 || kind_read != static_cast<uint8_t>(kind) ||
      version != kVersion || !IsMtu(parsed.mtu_bytes) || parsed.number >= kNumberLimit ||
      (connected && parsed.packet_number_or_key >= kNumberLimit)) {
    return Status(StatusCode::kInvalidArgument, "\"" + address.text() +
                                                    "\" is not the address of a queue pair for " +
                                                    (connected ? "connections" : "datagrams") +
                                                    " in layout " + std::to_string(kVersion));
  }
  std::memcpy(parsed.gid.bytes.data(), gid.data(), gid.size());
  return parsed;
}

ibv_mtu ToVerbsMtu(size_t bytes) {
  ROCECOLL_CHECK(IsMtu(bytes));
  return static_cast<ibv_mtu>(std::countr_zero(bytes) - 7);  // 256 bytes map to 1
}

}  // namespace rocecoll
