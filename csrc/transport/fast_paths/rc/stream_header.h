// SPDX-License-Identifier: Apache-2.0
// What queue pairs carry: SENDs that start with this header, little endian, and the 32-bit
// immediate of a write's last request, which is the number of the exposed slice.
//
//   offset  size  field
//        0     1  kind
//        1     1  credits returned for messages of credits
//        2     2  credits returned for frames and writes
//        4     4  low bits of the message's number in its stream; zero in kCredit and kProbe
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/bytes.h"
#include "base/enum_table.h"

namespace rocecoll {

struct StreamHeader {
  enum class Kind : uint8_t {
    kFrame = 1,      // the owner's frame follows
    kCredit = 2,     // credits only
    kProbe = 3,      // proves the path
    kHeartbeat = 4,  // the sender's process lives
  };
  static constexpr size_t kWireBytes = 8;

  Kind kind = Kind::kFrame;
  uint8_t bare_credits = 0;
  uint16_t credits = 0;
  uint32_t number = 0;

  void store(std::span<std::byte> to) const {
    ByteWriter writer(to.first(kWireBytes));
    writer.Write(kind);
    writer.Write(bare_credits);
    writer.Write(credits);
    writer.Write(number);
  }
  static std::optional<StreamHeader> Parse(std::span<const std::byte> from) {
    ByteReader reader(from);
    StreamHeader header;
    const auto kind = EnumeratorOf<Kind, 1>(reader.Read<uint8_t>());
    header.bare_credits = reader.Read<uint8_t>();
    header.credits = reader.Read<uint16_t>();
    header.number = reader.Read<uint32_t>();
    const bool right_size = kind == Kind::kFrame ? reader.remaining() > 0 : reader.remaining() == 0;
    if (!reader.ok() || !kind || !right_size) return std::nullopt;
    header.kind = *kind;
    return header;
  }
};

}  // namespace rocecoll
