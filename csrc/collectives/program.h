// SPDX-License-Identifier: Apache-2.0
// A collective algorithm is a pure function of (rank, step). It has no state, no I/O, no time and
// no memory: the engine executes the same programs that the checker proves and the simulator times.
//
// Data is addressed in blocks. Each buffer of an operation is a sequence of blocks: BlocksIn() of
// collective.h says how many, and partition.h says where a block lies and how many elements it has,
// possibly none. Programs know only block numbers.
//
// Execution rules, which the checker proves for every program:
//  1. Step numbers are global: a Send at step i has exactly one equal Recv or RecvReduce at step i
//     on its peer, in the same order among the transfers between the two ranks in that step.
//  2. Within a step: first the copies, in order; then all sends and receives at once; when all of
//     them are complete, the reductions, in order. So a step never sends what it receives, and what
//     it sends is not overwritten until the step is over. (The engine may perform a reduction
//     earlier if nothing else in the step touches its blocks.)
//  3. What one step receives does not overlap what it sends or receives elsewhere in that step
//     (a RecvReduce lands in scratch, so it may target what the step sends, receives or reduces).
//  4. A transfer whose blocks hold no elements is skipped on both sides.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

#include "base/check.h"
#include "base/rank.h"
#include "collectives/collective.h"

namespace rocecoll {

// Blocks first + (i / run) * stride + i % run for i in [0, count), modulo the buffer's block count.
// With run == count (Run()) this is one cyclic run.
struct Blocks {
  Buffer buffer = Buffer::kInput;
  uint32_t first = 0;
  uint32_t count = 0;
  uint32_t run = 0;
  uint32_t stride = 0;

  static constexpr Blocks Run(Buffer buffer, uint32_t first, uint32_t count) {
    return {buffer, first, count, count, count};
  }
  constexpr uint32_t at(uint32_t i, uint32_t blocks_in_buffer) const {
    return (first + (i / run) * stride + i % run) % blocks_in_buffer;
  }
};

struct Transfer {
  enum class Kind : uint8_t {
    kSend,        // blocks to peer
    kRecv,        // blocks from peer
    kRecvReduce,  // blocks = source (op) data from peer; the left operand is the lower rank's
    kCopy,        // blocks = source (a no-op where both are the same memory)
  };
  Kind kind = Kind::kSend;
  Rank peer = 0;
  Blocks blocks;
  Blocks source;  // for kRecvReduce and kCopy: as many blocks
};

// Made several times in each operation, usually with few transfers: the unused ones are neither
// written nor copied.
class Step {
 public:
  static constexpr uint32_t kMaxTransfers = 16;

  Step() {}  // NOLINT(modernize-use-equals-default): that would be deleted, for the union
  Step(const Step& other) { *this = other; }
  Step& operator=(const Step& other) {
    std::copy_n(other.transfers_.data(), other.count_, transfers_.data());
    count_ = other.count_;
    return *this;
  }

  void send(Rank peer, Blocks blocks) { add({Transfer::Kind::kSend, peer, blocks, {}}); }
  void recv(Rank peer, Blocks blocks) { add({Transfer::Kind::kRecv, peer, blocks, {}}); }
  void recv_reduce(Rank peer, Blocks blocks) { recv_reduce(peer, blocks, blocks); }
  // The rank's own operand is in `own`, which saves copying it into `blocks` first.
  void recv_reduce(Rank peer, Blocks blocks, Blocks own) {
    add({Transfer::Kind::kRecvReduce, peer, blocks, own});
  }
  void copy(Blocks to, Blocks from) { add({Transfer::Kind::kCopy, 0, to, from}); }

  // Treats each peer as an index into `ranks`, and replaces it by the rank found there.
  void rename_peers(std::span<const Rank> ranks) {
    for (uint32_t i = 0; i < count_; ++i) {
      if (transfers_[i].kind != Transfer::Kind::kCopy) {
        transfers_[i].peer = ranks[transfers_[i].peer];
      }
    }
  }

  const Transfer* begin() const { return transfers_.data(); }
  const Transfer* end() const { return transfers_.data() + count_; }
  uint32_t size() const { return count_; }
  const Transfer& operator[](uint32_t i) const { return transfers_[i]; }

 private:
  void add(const Transfer& transfer) {
    ROCECOLL_CHECK(count_ < kMaxTransfers);
    transfers_[count_++] = transfer;
  }
  static_assert(std::is_trivially_copyable_v<Transfer>);
  union {
    std::array<Transfer, kMaxTransfers> transfers_;
  };
  uint32_t count_ = 0;
};

// Programs that reduce in the output find here, in step `index`, what they send and add to, so that
// the input is not copied first.
inline Buffer HeldIn(uint32_t index) { return index == 0 ? Buffer::kInput : Buffer::kOutput; }

// The first step of some of these programs: a no-op if the output is the input.
inline void CopyWholeInput(uint32_t blocks, Step& step) {
  step.copy(Blocks::Run(Buffer::kOutput, 0, blocks), Blocks::Run(Buffer::kInput, 0, blocks));
}

// The first step of gathers: puts the rank's own block in its place among all blocks.
inline void CopyOwnBlock(Rank rank, Step& step) {
  step.copy(Blocks::Run(Buffer::kOutput, rank, 1), Blocks::Run(Buffer::kInput, 0, 1));
}

class HostLayout;

// A value type: what is known of the program in advance, and a function without state.
struct Program {
  using StepFunction = Step (*)(const Program& program, Rank rank, uint32_t index);

  std::string_view name = {};
  uint32_t ranks = 1;
  Rank root = 0;       // rooted collectives; the peer for send and recv
  uint32_t steps = 0;  // the same number on every rank; a step may be empty for some ranks
  uint32_t work_blocks = 0;
  StepFunction step_function = nullptr;
  // The blocks of a vector. There is one for each rank, unless `order` has more of them, or the cut
  // is ours and the program wants another number. Until MakeProgram() is done, 0 stands for one
  // block for each rank.
  uint32_t blocks = 0;
  // By block: the rank to which the block belongs, or kNoRank for a block without elements. Empty
  // if block i belongs to rank i, or if the cut is ours.
  std::span<const Rank> order = {};
  const HostLayout* hosts = nullptr;  // for programs that know them; outlives the program

  Step step(Rank rank, uint32_t index) const {
    ROCECOLL_CHECK(rank < ranks && index < steps);
    return step_function(*this, rank, index);
  }
};
// Every operation has one, without allocation.
static_assert(std::is_trivially_copyable_v<Program>);

// What a program is made for. All ranks know the same.
struct ProgramRequest {
  Collective collective = Collective::kBarrier;
  uint32_t ranks = 1;
  Rank root = 0;       // rooted collectives; the peer for send and recv
  uint64_t bytes = 0;  // size of one rank's whole vector (see docs/algorithms.md per collective)
  // False: blocks differ in size (v-variants), so programs must not assume equal ones.
  bool uniform = true;
  const HostLayout* hosts = nullptr;  // null: not known
};

}  // namespace rocecoll
