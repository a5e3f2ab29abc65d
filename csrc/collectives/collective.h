// SPDX-License-Identifier: Apache-2.0
// The table of all collectives and their properties.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "base/enum_table.h"

namespace rocecoll {

// The numbers are part of the fingerprint on the wire.
enum class Collective : uint8_t {
  kAllreduce,
  kReduce,
  kReduceScatter,
  kBroadcast,
  kAllgather,
  kGather,
  kScatter,
  kAlltoall,
  kBarrier,
  kSend,
  kRecv,
};

// The direction in which data flows.
enum class Flow : uint8_t {
  kNowhere,
  kAllToAll,
  kAllToRoot,  // only the root has an output
  kRootToAll,  // only the root has data to give
  kToPeer,     // between two ranks, each of which makes its own call
  kFromPeer,
};

// What a buffer of the caller holds. A vector has one block for each rank: what that rank gives, or
// what it gets. (If we make the cut, a program may use other blocks.)
enum class Contents : uint8_t { kNothing, kBlock, kVector };

// Who cuts the vector into blocks, and who knows the sizes of the blocks.
enum class Cut : uint8_t {
  kUncut,    // there is no vector
  kOurs,     // we do, as evenly as possible: callers have whole vectors on all ranks
  kAgreed,   // callers do, and each knows all of the sizes, which may differ
  kPrivate,  // callers do, and each knows only its own sizes, unless all have promised one size
};

struct CollectiveTraits {
  Collective collective;
  Flow flow;
  Contents input;
  Contents output;
  Cut cut;
  bool reduces;
  std::string_view name;
  std::string_view call = name;  // the name in torch.distributed, which callers used
};

inline constexpr auto kCollectiveTraits = [] {
  using enum Collective;
  using enum Flow;
  using enum Contents;
  using enum Cut;
  constexpr bool kReduces = true, kCopies = false;
  // clang-format off
  return std::to_array<CollectiveTraits>({
    // collective    flow        input     output    cut       values    name         call
    {kAllreduce,     kAllToAll,  kVector,  kVector,  kOurs,    kReduces, "allreduce", "all_reduce"},
    {kReduce,        kAllToRoot, kVector,  kVector,  kOurs,    kReduces, "reduce"},
    {kReduceScatter, kAllToAll,  kVector,  kBlock,   kAgreed,  kReduces, "reduce_scatter"},
    {kBroadcast,     kRootToAll, kNothing, kVector,  kOurs,    kCopies,  "broadcast"},
    {kAllgather,     kAllToAll,  kBlock,   kVector,  kAgreed,  kCopies,  "allgather", "all_gather"},
    {kGather,        kAllToRoot, kBlock,   kVector,  kPrivate, kCopies,  "gather"},
    {kScatter,       kRootToAll, kVector,  kBlock,   kPrivate, kCopies,  "scatter"},
    {kAlltoall,      kAllToAll,  kVector,  kVector,  kPrivate, kCopies,  "alltoall",  "all_to_all"},
    {kBarrier,       kNowhere,   kNothing, kNothing, kUncut,   kCopies,  "barrier"},
    {kSend,          kToPeer,    kBlock,   kNothing, kUncut,   kCopies,  "send"},
    {kRecv,          kFromPeer,  kNothing, kBlock,   kUncut,   kCopies,  "recv"},
  });
  // clang-format on
}();
static_assert(HasRowForEach(kCollectiveTraits, &CollectiveTraits::collective));

constexpr const CollectiveTraits& TraitsOf(Collective collective) {
  return RowOf(kCollectiveTraits, collective);
}
constexpr std::string_view ToString(Collective collective) { return TraitsOf(collective).name; }
constexpr bool Reduces(Collective collective) { return TraitsOf(collective).reduces; }
constexpr bool IsRooted(Collective collective) {
  const Flow flow = TraitsOf(collective).flow;
  return flow == Flow::kAllToRoot || flow == Flow::kRootToAll;
}
constexpr bool IsPointToPoint(Collective collective) {
  const Flow flow = TraitsOf(collective).flow;
  return flow == Flow::kToPeer || flow == Flow::kFromPeer;
}

// The buffers of an operation. kWork is scratch with Program::work_blocks blocks: if the collective
// reduces, block i is as large as block i of the input, otherwise as large as the largest block of
// the operation.
enum class Buffer : uint8_t { kInput, kOutput, kWork };

// What the caller's buffer (never kWork) holds on a rank.
constexpr Contents ContentsOf(Buffer buffer, Collective collective, bool is_root) {
  const CollectiveTraits& traits = TraitsOf(collective);
  const bool input = buffer == Buffer::kInput;
  const bool root_only = traits.flow == (input ? Flow::kRootToAll : Flow::kAllToRoot);
  return root_only && !is_root ? Contents::kNothing : input ? traits.input : traits.output;
}

// The number of blocks in these contents, if a vector has `in_vector`.
constexpr uint32_t BlocksOf(Contents contents, uint32_t in_vector) {
  return contents == Contents::kVector ? in_vector : contents == Contents::kBlock ? 1 : 0;
}

// If the collective has no input, the root gives what its output holds.
constexpr bool GivesOutput(Collective collective, bool is_root) {
  return is_root && TraitsOf(collective).flow == Flow::kRootToAll &&
         TraitsOf(collective).input == Contents::kNothing;
}

// A reduction whose result is not for this rank has its output in scratch, which is as large as the
// input.
constexpr bool HasScratchOutput(Collective collective, bool is_root) {
  return Reduces(collective) &&
         ContentsOf(Buffer::kOutput, collective, is_root) == Contents::kNothing;
}

// The number of blocks that programs see on a rank if a vector has `in_vector`: those of the
// caller, and those that are in scratch instead. For a barrier, input and output are each one block
// of one byte without meaning.
constexpr uint32_t BlocksIn(Buffer buffer, Collective collective, uint32_t in_vector,
                            bool is_root) {
  if (collective == Collective::kBarrier) return 1;
  if (buffer == Buffer::kOutput && HasScratchOutput(collective, is_root)) return in_vector;
  return BlocksOf(ContentsOf(buffer, collective, is_root), in_vector);
}

}  // namespace rocecoll
