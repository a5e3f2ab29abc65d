// SPDX-License-Identifier: Apache-2.0
#include "engine/abort_notice.h"

#include <utility>

#include "base/bytes.h"
#include "base/text.h"

namespace rocecoll {
namespace {

constexpr uint32_t kKind = 0x42414352;  // "RCAB"
constexpr size_t kFixedBytes = 25;

}  // namespace

std::vector<std::byte> EncodeAbortNotice(const AbortNotice& notice, size_t max_bytes) {
  ROCECOLL_CHECK(max_bytes >= kFixedBytes);
  ROCECOLL_CHECK(notice.report.reporter().has_value());
  const auto cause = CutText(notice.report.message(), max_bytes - kFixedBytes);
  std::vector<std::byte> bytes(kFixedBytes + cause.size());
  ByteWriter writer(bytes);
  writer.Write(kKind);
  writer.Write(notice.group_high);
  writer.Write(notice.group_low);
  writer.Write(*notice.report.reporter());
  writer.Write(static_cast<uint8_t>(notice.report.code()));
  writer.WriteBytes(std::as_bytes(std::span(cause)));
  return bytes;
}

std::optional<AbortNotice> ParseAbortNotice(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  AbortNotice notice;
  const auto kind = reader.Read<uint32_t>();
  notice.group_high = reader.Read<uint64_t>();
  notice.group_low = reader.Read<uint64_t>();
  const auto reporter = reader.Read<Rank>();
  const auto code = reader.Read<uint8_t>();
  if (!reader.ok() || kind != kKind) return std::nullopt;
  if (code == 0 || code > static_cast<uint8_t>(StatusCode::kInternal)) return std::nullopt;
  const auto text = reader.ReadBytes(reader.remaining());
  std::string cause(reinterpret_cast<const char*>(text.data()), text.size());
  notice.report = Status(static_cast<StatusCode>(code), std::move(cause)).reported_by(reporter);
  return notice;
}

}  // namespace rocecoll
