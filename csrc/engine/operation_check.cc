// SPDX-License-Identifier: Apache-2.0
#include "engine/operation_check.h"

#include <string>

#include "collectives/reduce.h"
#include "messenger/messenger.h"

namespace rocecoll {
namespace {

Status Invalid(const OperationSpec& spec, const std::string& what) {
  return Status(StatusCode::kInvalidArgument,
                "rocecoll: " + std::string(ToString(spec.collective)) + ": " + what);
}

Status CheckBuffer(const OperationSpec& spec, const OperationBuffer& buffer, uint32_t blocks,
                   const char* name) {
  if (blocks == 0) return {};
  if (buffer.partition.blocks() != blocks) {
    return Invalid(spec, std::string(name) + " has " + std::to_string(buffer.partition.blocks()) +
                             " blocks, needs " + std::to_string(blocks));
  }
  if (buffer.data == nullptr && buffer.partition.total() > 0) {
    return Invalid(spec, std::string(name) + " has elements but no memory");
  }
  return {};
}

Status CheckEqual(const OperationSpec& spec, const char* a_name, uint64_t a, const char* b_name,
                  uint64_t b) {
  if (a == b) return {};
  return Invalid(spec, std::string(a_name) + " has " + std::to_string(a) + " elements, " + b_name +
                           " has " + std::to_string(b));
}

Status CheckSameBlocks(const OperationSpec& spec) {
  const Partition& input = spec.input.partition;
  const Partition& output = spec.output.partition;
  Status status = CheckEqual(spec, "input", input.total(), "output", output.total());
  if (!status.ok() || (input.contiguous() && output.contiguous())) return status;
  for (uint32_t i = 0; i < input.blocks() && status.ok(); ++i) {
    status = CheckEqual(spec, "a block of input", input.block(i).count, "the same block of output",
                        output.block(i).count);
  }
  return status;
}

// Sizes that must agree within one rank: of the whole vectors, or of this rank's own block.
Status CheckSizes(const OperationSpec& spec, Rank rank, Contents input, Contents output) {
  if (input == Contents::kNothing || output == Contents::kNothing) return {};
  if (Reduces(spec.collective) && output == Contents::kVector) return CheckSameBlocks(spec);
  const auto own = [rank](Contents contents, const Partition& partition) {
    return contents == Contents::kVector ? partition.block(rank).count : partition.total();
  };
  return CheckEqual(spec, input == Contents::kVector ? "this rank's block of input" : "input",
                    own(input, spec.input.partition),
                    output == Contents::kVector ? "this rank's block of output" : "output",
                    own(output, spec.output.partition));
}

// What `uniform` promises.
Status CheckUniform(const OperationSpec& spec, Contents input, Contents output) {
  if (!spec.uniform || TraitsOf(spec.collective).cut != Cut::kPrivate) return {};
  const auto even = [](const Partition& p) { return p.max_block() * p.blocks() == p.total(); };
  if ((input == Contents::kVector && !even(spec.input.partition)) ||
      (output == Contents::kVector && !even(spec.output.partition))) {
    return Invalid(spec, "blocks differ in size, which needs uniform = false");
  }
  if (input != Contents::kVector || output != Contents::kVector) return {};
  return CheckEqual(spec, "input", spec.input.partition.total(), "output",
                    spec.output.partition.total());
}

}  // namespace

Status CheckOperation(const OperationSpec& spec, Rank rank, uint32_t ranks) {
  if (static_cast<int>(spec.type) >= kDataTypes) return Invalid(spec, "unknown data type");
  if (static_cast<int>(spec.reduce_op) >= kReduceOps) return Invalid(spec, "unknown reduce op");
  if (spec.any_source && spec.collective != Collective::kRecv) {
    return Invalid(spec, "only a receive may be from any source");
  }
  if (spec.any_source && ranks == 1) return Invalid(spec, "there is no other rank to receive from");
  if (!spec.any_source && spec.root >= ranks) {
    return Invalid(spec, "rank " + std::to_string(spec.root) + " is not in the group, which has " +
                             std::to_string(ranks) + " ranks");
  }
  if (IsPointToPoint(spec.collective) && !spec.any_source && spec.root == rank) {
    return Invalid(spec, "a rank cannot send to or receive from itself");
  }
  if (spec.user_tag > Tag::kLargestUserTag) return Invalid(spec, "tags are below 2^31");
  if (spec.timeout < Duration{0}) return Invalid(spec, "the timeout is negative");
  if (Reduces(spec.collective)) {
    Status status = CheckReduction(spec.type, spec.reduce_op);
    if (!status.ok()) return status;
  }
  const bool is_root = rank == spec.root;
  const Contents input = ContentsOf(Buffer::kInput, spec.collective, is_root);
  const Contents output = ContentsOf(Buffer::kOutput, spec.collective, is_root);
  Status status = CheckBuffer(spec, spec.input, BlocksOf(input, ranks), "input");
  if (status.ok()) status = CheckBuffer(spec, spec.output, BlocksOf(output, ranks), "output");
  if (status.ok()) status = CheckSizes(spec, rank, input, output);
  if (status.ok()) status = CheckUniform(spec, input, output);
  return status;
}

}  // namespace rocecoll
