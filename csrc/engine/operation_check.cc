// SPDX-License-Identifier: Apache-2.0
#include "engine/operation_check.h"

#include <string>

#include "collectives/reduce.h"
#include "engine/plan.h"

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

// Sizes that must agree within one rank.
Status CheckSizes(const OperationSpec& spec, Rank rank) {
  const bool is_root = rank == spec.root;
  const Partition& input = spec.input.partition;
  const Partition& output = spec.output.partition;
  switch (spec.collective) {
    case Collective::kAllreduce:
      return CheckSameBlocks(spec);
    case Collective::kReduce:
      return is_root ? CheckSameBlocks(spec) : Status();
    case Collective::kReduceScatter:
      return CheckEqual(spec, "this rank's block of input", input.block(rank).count, "output",
                        output.total());
    case Collective::kAllgather:
      return CheckEqual(spec, "input", input.total(), "this rank's block of output",
                        output.block(rank).count);
    case Collective::kGather:
      if (!is_root) return {};
      return CheckEqual(spec, "input", input.total(), "this rank's block of output",
                        output.block(rank).count);
    case Collective::kScatter:
      if (!is_root) return {};
      return CheckEqual(spec, "this rank's block of input", input.block(rank).count, "output",
                        output.total());
    case Collective::kAlltoall:
      return CheckEqual(spec, "this rank's block of input", input.block(rank).count,
                        "this rank's block of output", output.block(rank).count);
    case Collective::kBroadcast:
    case Collective::kBarrier:
    case Collective::kSend:
    case Collective::kRecv:
      return {};
  }
  return {};
}

// What `uniform` promises. (An allreduce's blocks are our own cut and may differ by one.)
Status CheckUniform(const OperationSpec& spec, const BlockCounts& blocks) {
  const bool promised = spec.uniform && (spec.collective == Collective::kAlltoall ||
                                         spec.collective == Collective::kGather ||
                                         spec.collective == Collective::kScatter);
  if (!promised) return {};
  const auto even = [](const Partition& p) { return p.max_block() * p.blocks() == p.total(); };
  if ((blocks.input > 0 && !even(spec.input.partition)) ||
      (blocks.output > 0 && !even(spec.output.partition))) {
    return Invalid(spec, "blocks differ in size, which needs uniform = false");
  }
  if (spec.collective == Collective::kAlltoall) {
    return CheckEqual(spec, "input", spec.input.partition.total(), "output",
                      spec.output.partition.total());
  }
  return {};
}

}  // namespace

BlockCounts ExpectedBlocks(Collective collective, bool is_root, uint32_t ranks) {
  const uint32_t at_root = is_root ? ranks : 0;
  switch (collective) {
    case Collective::kAllreduce:
    case Collective::kAlltoall:
      return {ranks, ranks};
    case Collective::kReduce:
      return {ranks, at_root};
    case Collective::kReduceScatter:
      return {ranks, 1};
    case Collective::kBroadcast:
      return {0, ranks};
    case Collective::kAllgather:
      return {1, ranks};
    case Collective::kGather:
      return {1, at_root};
    case Collective::kScatter:
      return {at_root, 1};
    case Collective::kBarrier:
      return {0, 0};
    case Collective::kSend:
      return {1, 0};
    case Collective::kRecv:
      return {0, 1};
  }
  return {};
}

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
  if (spec.user_tag >= (1u << 31)) return Invalid(spec, "tags are below 2^31");
  if (spec.timeout < Duration{0}) return Invalid(spec, "the timeout is negative");
  if (Reduces(spec.collective)) {
    Status status = CheckReduction(spec.type, spec.reduce_op);
    if (!status.ok()) return status;
  }
  const BlockCounts blocks = ExpectedBlocks(spec.collective, rank == spec.root, ranks);
  Status status = CheckBuffer(spec, spec.input, blocks.input, "input");
  if (status.ok()) status = CheckBuffer(spec, spec.output, blocks.output, "output");
  if (status.ok()) status = CheckSizes(spec, rank);
  if (status.ok()) status = CheckUniform(spec, blocks);
  return status;
}

}  // namespace rocecoll
