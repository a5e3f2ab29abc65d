// SPDX-License-Identifier: Apache-2.0
#include "engine/groups/notice.h"

#include <string>
#include <utility>

#include "base/bytes.h"
#include "base/check.h"
#include "base/text.h"

namespace rocecoll {
namespace {

constexpr uint32_t kAbort = 0x42414352;     // "RCAB"
constexpr uint32_t kRollCall = 0x43524352;  // "RCRC"
constexpr uint32_t kLeft = 0x4f474352;      // "RCGO"
constexpr size_t kHeaderBytes = 4 + GroupKey::kWireBytes + 4;
constexpr size_t kRollCallBytes = kHeaderBytes + 1 + 8;

ByteWriter WriteHeader(std::span<std::byte> to, uint32_t kind, const GroupKey& group, Rank rank) {
  ByteWriter writer(to);
  writer.Write(kind);
  group.store(writer);
  writer.Write(rank);
  return writer;
}

std::optional<Notice> ParseAbort(ByteReader& reader, const GroupKey& group, Rank reporter) {
  const auto code = EnumeratorOf<StatusCode>(reader.Read<uint8_t>());
  if (!reader.ok() || !code || *code == StatusCode::kOk) return std::nullopt;
  const auto text = reader.ReadBytes(reader.remaining());
  std::string cause(reinterpret_cast<const char*>(text.data()), text.size());
  const Status found(*code, std::move(cause));
  return AbortNotice{group, found.reported_by(reporter)};
}

std::optional<Notice> ParseRollCall(ByteReader& reader, const GroupKey& group, Rank from) {
  const auto kind = EnumeratorOf<RollCallNotice::Kind>(reader.Read<uint8_t>());
  const auto sequence = reader.Read<uint64_t>();
  if (!reader.ok() || reader.remaining() > 0 || !kind) return std::nullopt;
  return RollCallNotice{group, from, *kind, sequence};
}

}  // namespace

std::vector<std::byte> Encode(const AbortNotice& notice, size_t max_bytes) {
  ROCECOLL_CHECK(max_bytes > kHeaderBytes && notice.report.reporter().has_value());
  const auto cause = CutText(notice.report.message(), max_bytes - kHeaderBytes - 1);
  std::vector<std::byte> bytes(kHeaderBytes + 1 + cause.size());
  ByteWriter writer = WriteHeader(bytes, kAbort, notice.group, *notice.report.reporter());
  writer.Write(static_cast<uint8_t>(notice.report.code()));
  writer.WriteBytes(std::as_bytes(std::span(cause)));
  return bytes;
}

std::vector<std::byte> Encode(const RollCallNotice& notice) {
  std::vector<std::byte> bytes(kRollCallBytes);
  ByteWriter writer = WriteHeader(bytes, kRollCall, notice.group, notice.from);
  writer.Write(static_cast<uint8_t>(notice.kind));
  writer.Write(notice.sequence);
  return bytes;
}

std::vector<std::byte> Encode(const LeftNotice& notice) {
  std::vector<std::byte> bytes(kHeaderBytes);
  WriteHeader(bytes, kLeft, notice.group, notice.from);
  return bytes;
}

std::optional<Notice> ParseNotice(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  const auto kind = reader.Read<uint32_t>();
  const GroupKey group = GroupKey::load(reader);
  const auto rank = reader.Read<Rank>();
  switch (kind) {
    case kAbort:
      return ParseAbort(reader, group, rank);
    case kRollCall:
      return ParseRollCall(reader, group, rank);
    case kLeft:
      if (!reader.ok() || reader.remaining() > 0) return std::nullopt;
      return LeftNotice{group, rank};
    default:
      return std::nullopt;
  }
}

}  // namespace rocecoll
