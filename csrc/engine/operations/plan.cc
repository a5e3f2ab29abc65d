// SPDX-License-Identifier: Apache-2.0
#include "engine/operations/plan.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "base/arithmetic.h"
#include "base/fnv_hash.h"
#include "base/named_status.h"
#include "collectives/host_layout.h"
#include "collectives/reduce.h"
#include "collectives/selector.h"
#include "engine/operations/engine_options.h"
#include "messenger/messenger.h"

namespace rocecoll {
namespace {

Status Invalid(const OperationSpec& spec, const std::string& what) {
  return NamedStatus(StatusCode::kInvalidArgument,
                     std::string(ToString(spec.collective)) + ": " + what);
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

// Lanes of an operation have 16 bits in a message's slot.
constexpr uint64_t kMaxLanes = 0xffff;
// What a lane may hold for its whole life, as a part of all scratch: so that a few operations have
// their lanes in flight at once.
constexpr size_t kScratchParts = 16;

// One rank's whole vector, in elements, where every rank can know it.
uint64_t AgreedElements(const OperationSpec& spec, uint32_t ranks) {
  const Cut cut = TraitsOf(spec.collective).cut;
  if (cut == Cut::kUncut || (cut == Cut::kPrivate && !spec.uniform)) return 0;
  // In the buffers that every rank has, not only the root.
  const Contents input = ContentsOf(Buffer::kInput, spec.collective, false);
  const Contents output = ContentsOf(Buffer::kOutput, spec.collective, false);
  if (input == Contents::kVector) return spec.input.partition.total();
  if (output == Contents::kVector) return spec.output.partition.total();
  return ranks * (input == Contents::kBlock ? spec.input : spec.output).partition.total();
}

// The buffer whose block sizes all ranks know though they may differ; else null.
const Partition* SharedBlocks(const OperationSpec& spec) {
  const CollectiveTraits& traits = TraitsOf(spec.collective);
  if (traits.cut != Cut::kAgreed) return nullptr;
  return traits.input == Contents::kVector ? &spec.input.partition : &spec.output.partition;
}

bool UniformBlocks(const OperationSpec& spec) {
  const Partition* shared = SharedBlocks(spec);
  if (shared == nullptr) return spec.uniform;
  return shared->max_block() * shared->blocks() == shared->total();
}

uint64_t LargestBlock(const OperationSpec& spec, const Plan& plan) {
  if (TraitsOf(spec.collective).cut == Cut::kOurs) {
    return CeilDivide(plan.elements, plan.program.blocks);
  }
  return std::max(spec.input.partition.max_block(), spec.output.partition.max_block());
}

// The most blocks that rank 0 moves in one transfer: any rank's number would do, but all must use
// the same one. Of a program that knows hosts, between these, if it has such: they take most of its
// time, while inside a host a larger message only costs less.
uint32_t LargestTransfer(const Program& program) {
  uint32_t largest = 1;
  uint32_t between_hosts = 0;
  for (uint32_t i = 0; i < program.steps; ++i) {
    const Step step = program.step(0, i);
    for (const Transfer& transfer : step) {
      if (transfer.kind == Transfer::Kind::kCopy) continue;
      largest = std::max(largest, transfer.blocks.count);
      if (program.hosts != nullptr &&
          program.hosts->host_of(transfer.peer) != program.hosts->host_of(0)) {
        between_hosts = std::max(between_hosts, transfer.blocks.count);
      }
    }
  }
  return between_hosts > 0 ? between_hosts : largest;
}

// Lanes are cut so that one message takes at most half of lane_bytes (it stays in the cache until
// it is reduced, and several are in flight), so that what a lane holds is a small part of all
// scratch, and so that a message just over the eager limit becomes a few within it.
uint32_t LaneCount(const OperationSpec& spec, const Plan& plan, uint32_t ranks,
                   const EagerLimit& eager, const EngineOptions& options) {
  if (plan.elements == 0) return 1;
  const size_t element_bytes = SizeOf(spec.type);
  const uint64_t block_bytes = LargestBlock(spec, plan) * element_bytes;
  const uint64_t transfer_bytes = LargestTransfer(plan.program) * block_bytes;
  if (plan.elements * element_bytes <= options.lane_bytes) {
    if (ranks == 1) return 1;  // which sends nothing
    const uint64_t pieces = CeilDivide(transfer_bytes, std::max<uint64_t>(eager.bytes, 1));
    return pieces <= eager.pieces ? static_cast<uint32_t>(std::max<uint64_t>(pieces, 1)) : 1;
  }
  uint64_t held_blocks = plan.program.work_blocks;
  if (HasScratchOutput(spec.collective, false)) held_blocks += plan.program.blocks;
  if (ScalesInScratch(spec, ranks)) held_blocks += plan.program.blocks;
  const uint64_t message_bytes = std::max<uint64_t>(options.lane_bytes / 2, 1);
  const uint64_t lane_scratch = std::max<uint64_t>(options.scratch_bytes / kScratchParts, 1);
  const uint64_t lanes = std::max(CeilDivide(transfer_bytes, message_bytes),
                                  CeilDivide(held_blocks * block_bytes, lane_scratch));
  return static_cast<uint32_t>(
      std::clamp<uint64_t>(lanes, 1, std::min(kMaxLanes, std::max<uint64_t>(plan.elements, 1))));
}

uint32_t LayoutHash(const OperationSpec& spec, const Plan& plan) {
  FnvHash hash;
  hash.add(plan.lanes);
  hash.add(plan.program.name);
  if (plan.program.hosts != nullptr) hash.add(plan.program.hosts->hash());
  const Partition* shared = SharedBlocks(spec);
  if (shared != nullptr && !UniformBlocks(spec)) {
    for (uint32_t i = 0; i < shared->blocks(); ++i) hash.add(shared->block(i).count);
  }
  return hash.folded();
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

bool ScalesInput(const OperationSpec& spec, uint32_t ranks) {
  if (!Reduces(spec.collective)) return false;
  if (spec.reduce_op == ReduceOp::kAvg) return ranks > 1 && DividesFirst(spec.type);
  return spec.reduce_op == ReduceOp::kPremulSum;
}

bool ScalesInScratch(const OperationSpec& spec, uint32_t ranks) {
  return TraitsOf(spec.collective).output == Contents::kBlock && ScalesInput(spec, ranks);
}

Result<Plan> MakePlan(const OperationSpec& spec, Rank root, const HostLayout& hosts,
                      const EagerLimit& eager, const EngineOptions& options) {
  const uint32_t ranks = hosts.ranks();
  Plan plan;
  plan.elements = AgreedElements(spec, ranks);
  ProgramRequest request;
  request.collective = spec.collective;
  request.ranks = ranks;
  request.root = root;
  request.bytes = plan.elements * SizeOf(spec.type);
  request.uniform = UniformBlocks(spec);
  request.hosts = &hosts;
  auto program = MakeProgram(request, spec.algorithm);
  if (!program.ok() && spec.only_preferred) program = MakeProgram(request);
  if (!program.ok()) return program.status();
  plan.program = program.take();
  if (IsPointToPoint(spec.collective)) return plan;
  plan.lanes = LaneCount(spec, plan, ranks, eager, options);
  plan.layout_hash = LayoutHash(spec, plan);
  return plan;
}

}  // namespace rocecoll
