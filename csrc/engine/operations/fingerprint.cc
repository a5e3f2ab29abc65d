// SPDX-License-Identifier: Apache-2.0
#include "engine/operations/fingerprint.h"

#include "base/bytes.h"

namespace rocecoll {
namespace {

constexpr uint8_t kNotUniform = 1;

struct Fields {
  uint64_t elements = 0;
  uint32_t sequence = 0;
  uint32_t layout_hash = 0;
  uint32_t root = 0;
  uint8_t collective = 0;
  uint8_t reduce_op = 0;
  uint8_t type = 0;
  uint8_t flags = 0;
};

Fields Parse(const Fingerprint& fingerprint) {
  ByteReader reader(fingerprint);
  Fields fields;
  fields.elements = reader.Read<uint64_t>();
  fields.sequence = reader.Read<uint32_t>();
  fields.layout_hash = reader.Read<uint32_t>();
  fields.root = reader.Read<uint32_t>();
  fields.collective = reader.Read<uint8_t>();
  fields.reduce_op = reader.Read<uint8_t>();
  fields.type = reader.Read<uint8_t>();
  fields.flags = reader.Read<uint8_t>();
  return fields;
}

}  // namespace

Fingerprint MakeFingerprint(const OperationSpec& spec, const Plan& plan, uint64_t sequence) {
  const bool point_to_point = IsPointToPoint(spec.collective);
  const Collective collective = point_to_point ? Collective::kSend : spec.collective;
  Fingerprint fingerprint;
  ByteWriter writer(fingerprint);
  writer.Write<uint64_t>(plan.elements);
  writer.Write<uint32_t>(point_to_point ? 0 : static_cast<uint32_t>(sequence));
  writer.Write<uint32_t>(plan.layout_hash);
  writer.Write<uint32_t>(IsRooted(collective) ? spec.root : 0);
  writer.Write(static_cast<uint8_t>(collective));
  writer.Write(static_cast<uint8_t>(Reduces(collective) ? spec.reduce_op : ReduceOp::kSum));
  writer.Write(
      static_cast<uint8_t>(collective == Collective::kBarrier ? DataType::kUint8 : spec.type));
  writer.Write<uint8_t>(spec.uniform ? 0 : kNotUniform);
  return fingerprint;
}

std::string DescribeName(const Fingerprint& fingerprint) {
  const Fields fields = Parse(fingerprint);
  if (fields.collective >= kCollectiveTraits.size()) return "unknown operation";
  const auto collective = static_cast<Collective>(fields.collective);
  return IsPointToPoint(collective) ? "send/recv" : std::string(TraitsOf(collective).call);
}

std::string DescribeArguments(const Fingerprint& fingerprint, std::span<const Rank> global_ranks) {
  const Fields fields = Parse(fingerprint);
  const auto collective = static_cast<Collective>(fields.collective);
  // A peer's fingerprint may hold anything.
  if (fields.collective >= kCollectiveTraits.size() || fields.type >= kDataTypes ||
      fields.reduce_op >= kReduceOps || collective == Collective::kBarrier) {
    return {};
  }
  std::string text;
  if (IsRooted(collective)) {
    const Rank root =
        fields.root < global_ranks.size() ? global_ranks[fields.root] : Rank{fields.root};
    text += "root " + std::to_string(root) + ", ";
  }
  if (Reduces(collective)) {
    text += std::string(ToString(static_cast<ReduceOp>(fields.reduce_op))) + ", ";
  }
  text += ToString(static_cast<DataType>(fields.type));
  if (fields.flags & kNotUniform) return text + ", blocks of different sizes";
  if (IsPointToPoint(collective)) return text;
  return text + ", " + std::to_string(fields.elements) +
         (fields.elements == 1 ? " element" : " elements");
}

std::string DescribeFingerprint(const Fingerprint& fingerprint,
                                std::span<const Rank> global_ranks) {
  const std::string arguments = DescribeArguments(fingerprint, global_ranks);
  const std::string name = DescribeName(fingerprint);
  return arguments.empty() ? name : name + "(" + arguments + ")";
}

}  // namespace rocecoll
