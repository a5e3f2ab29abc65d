// SPDX-License-Identifier: Apache-2.0
#include "engine/abort_notice.h"

#include <algorithm>

#include "base/bytes.h"

namespace rocecoll {
namespace {

constexpr uint32_t kKind = 0x42414352;  // "RCAB"
constexpr size_t kFixedBytes = 25;

}  // namespace

std::vector<std::byte> EncodeAbortNotice(const AbortNotice& notice, size_t max_bytes) {
  ROCECOLL_CHECK(max_bytes >= kFixedBytes);
  const size_t text_bytes = std::min(notice.cause.size(), max_bytes - kFixedBytes);
  std::vector<std::byte> bytes(kFixedBytes + text_bytes);
  ByteWriter writer(bytes);
  writer.Write(kKind);
  writer.Write(notice.group_high);
  writer.Write(notice.group_low);
  writer.Write(notice.reporter);
  writer.Write(static_cast<uint8_t>(notice.code));
  writer.WriteBytes(std::as_bytes(std::span(notice.cause).first(text_bytes)));
  return bytes;
}

std::optional<AbortNotice> ParseAbortNotice(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  AbortNotice notice;
  const auto kind = reader.Read<uint32_t>();
  notice.group_high = reader.Read<uint64_t>();
  notice.group_low = reader.Read<uint64_t>();
  notice.reporter = reader.Read<uint32_t>();
  const auto code = reader.Read<uint8_t>();
  if (!reader.ok() || kind != kKind) return std::nullopt;
  if (code == 0 || code > static_cast<uint8_t>(StatusCode::kInternal)) return std::nullopt;
  notice.code = static_cast<StatusCode>(code);
  const auto text = reader.ReadBytes(reader.remaining());
  for (std::byte b : text) {
    // It ends up in logs and terminals.
    const char c = static_cast<char>(b);
    notice.cause += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return notice;
}

}  // namespace rocecoll
