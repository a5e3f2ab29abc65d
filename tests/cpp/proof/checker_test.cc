// SPDX-License-Identifier: Apache-2.0
// The checker finds errors planted into correct programs, and programs written to be wrong.
#include "collectives/proof/checker.h"

#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>

#include "collectives/host_layouts.h"
#include "collectives/program_list.h"

namespace rocecoll {
namespace {

using Kind = Transfer::Kind;
// Replaces one transfer of a program, or drops it if nothing is returned.
using Change = std::function<std::optional<Transfer>(Rank, uint32_t step, Transfer)>;

void Add(const Transfer& transfer, Step& step) {
  switch (transfer.kind) {
    case Kind::kSend:
      return step.send(transfer.peer, transfer.blocks);
    case Kind::kRecv:
      return step.recv(transfer.peer, transfer.blocks);
    case Kind::kRecvReduce:
      return step.recv_reduce(transfer.peer, transfer.blocks, transfer.source);
    case Kind::kCopy:
      return step.copy(transfer.blocks, transfer.source);
  }
}

// Errors planted into a correct program. A step function has no state, so the errors are stored
// beside it, for one program at a time.
struct Plant {
  Program right;
  Change change;
};
Plant planted;

Step PlantedStep(const Program&, Rank rank, uint32_t index) {
  Step changed;
  for (const Transfer& transfer : planted.right.step(rank, index)) {
    if (const auto kept = planted.change(rank, index, transfer)) Add(*kept, changed);
  }
  return changed;
}

Program Handmade(uint32_t ranks, uint32_t steps, Program::StepFunction function) {
  return {.ranks = ranks, .steps = steps, .step_function = function, .blocks = ranks};
}

Program Changed(const Program& right, Change change) {
  planted = {right, std::move(change)};
  Program changed = right;
  changed.step_function = PlantedStep;
  return changed;
}

std::optional<Transfer> Keep(Rank, uint32_t, Transfer transfer) { return transfer; }

void ExpectRefused(const Program& program, Collective collective, const std::string& reason,
                   bool in_place = false) {
  const Status status = CheckProgram(program, collective, 0, in_place).status();
  EXPECT_FALSE(status.ok()) << "not found: " << reason;
  EXPECT_NE(status.message().find(reason), std::string::npos)
      << "says '" << status.message() << "', not '" << reason << "'";
}

void ExpectFound(Collective collective, std::string_view name, uint32_t ranks, Change change,
                 const std::string& reason) {
  ExpectRefused(Changed(*Make(collective, name, ranks), std::move(change)), collective, reason);
}

// Changes one kind of transfer of rank 1 in step 1.
Change AtRankOne(Kind kind, std::function<std::optional<Transfer>(Transfer)> change) {
  return [=](Rank rank, uint32_t step, Transfer transfer) -> std::optional<Transfer> {
    if (rank == 1 && step == 1 && transfer.kind == kind) return change(transfer);
    return transfer;
  };
}
std::optional<Transfer> Drop(Transfer) { return std::nullopt; }

TEST(Checker, ChangesNothingByItself) {
  const Program same = Changed(*Make(Collective::kAllreduce, "ring", 5), Keep);
  EXPECT_TRUE(CheckProgram(same, Collective::kAllreduce).ok());
}

TEST(Checker, FindsUnmatchedTransfers) {
  ExpectFound(Collective::kAllgather, "ring", 5, AtRankOne(Kind::kRecv, Drop),
              "step 1: 1 sends are received by nobody");
  ExpectFound(Collective::kAllgather, "ring", 5, AtRankOne(Kind::kSend, Drop),
              "step 1, rank 2: waits for a message that rank 1 does not send");
  ExpectFound(Collective::kAllreduce, "circulant", 7,
              AtRankOne(Kind::kSend,
                        [](Transfer transfer) {
                          transfer.blocks = Blocks::Run(Buffer::kOutput, transfer.blocks.first, 1);
                          return transfer;
                        }),
              "expects 2 blocks, rank 1 sends 1");
  ExpectFound(Collective::kAllgather, "ring", 5,
              AtRankOne(Kind::kSend,
                        [](Transfer transfer) {
                          transfer.peer = 1;
                          return transfer;
                        }),
              "has no peer 1");
}

// Rank 0 sends two messages to rank 1, which receives them in the other order, so their sizes
// differ.
TEST(Checker, FindsMessagesTakenInTheWrongOrder) {
  const Program program = Handmade(3, 1, [](const Program&, Rank rank, uint32_t) {
    const Blocks one = Blocks::Run(Buffer::kOutput, 0, 1);
    const Blocks two = Blocks::Run(Buffer::kOutput, 1, 2);
    Step step;
    if (rank == 0) {
      step.send(1, one);
      step.send(1, two);
    } else if (rank == 1) {
      step.recv(0, two);
      step.recv(0, one);
    }
    return step;
  });
  ExpectRefused(program, Collective::kBroadcast, "expects 2 blocks, rank 0 sends 1");
}

TEST(Checker, FindsOverlapsInFlight) {
  ExpectFound(Collective::kAllgather, "ring", 5,
              AtRankOne(Kind::kRecv,
                        [](Transfer transfer) {
                          transfer.blocks.first = 0;  // the block that it sends in this step
                          return transfer;
                        }),
              "step 1, rank 1: sends and receives output block 0");
  ExpectFound(
      Collective::kAlltoall, "pairwise", 5,
      [](Rank, uint32_t, Transfer transfer) -> std::optional<Transfer> {
        if (transfer.kind == Kind::kRecv) transfer.blocks.first = 3;
        return transfer;
      },
      "receives twice output block 3");
  const Program shifts = Handmade(2, 1, [](const Program&, Rank, uint32_t) {
    Step step;
    step.copy(Blocks::Run(Buffer::kOutput, 1, 2), Blocks::Run(Buffer::kOutput, 0, 2));
    return step;
  });
  ExpectRefused(shifts, Collective::kBroadcast, "copies onto a source");
}

// Out of place the copy is a shift between two buffers; in place it is a shift within one buffer.
TEST(Checker, KnowsWhichMemoryIsSharedInPlace) {
  const Program rotates = Handmade(2, 1, [](const Program&, Rank, uint32_t) {
    Step step;
    step.copy(Blocks::Run(Buffer::kOutput, 0, 2), Blocks::Run(Buffer::kInput, 1, 2));
    return step;
  });
  ExpectRefused(rotates, Collective::kAllreduce, "result: rank 0", false);
  ExpectRefused(rotates, Collective::kAllreduce, "copies onto a source", true);
}

TEST(Checker, FindsBlocksThatDoNotExist) {
  const auto beyond = [](Transfer transfer) {
    transfer.blocks.first = 5;
    return transfer;
  };
  ExpectFound(Collective::kAllgather, "ring", 5, AtRankOne(Kind::kRecv, beyond),
              "names 1 blocks from block 5 of output, which has 5");
  const auto none = [](Transfer transfer) {
    transfer.blocks.count = 0;
    return transfer;
  };
  ExpectFound(Collective::kAllgather, "ring", 5, AtRankOne(Kind::kSend, none), "names no blocks");
  const auto many = [](Transfer transfer) {
    transfer.blocks = Blocks::Run(Buffer::kOutput, 0, 6);
    return transfer;
  };
  ExpectFound(Collective::kAllgather, "ring", 5, AtRankOne(Kind::kSend, many), "names 6 blocks");
  const auto absent = [](Rank, uint32_t, Transfer transfer) -> std::optional<Transfer> {
    if (transfer.kind == Kind::kSend) transfer.blocks.buffer = Buffer::kOutput;
    return transfer;  // only the root of a gather has an output
  };
  ExpectFound(Collective::kGather, "linear", 3, absent, "of output, which has 0");
}

TEST(Checker, FindsWritesToTheInputAndUndefinedData) {
  ExpectFound(Collective::kAllreduce, "ring", 3,
              AtRankOne(Kind::kRecvReduce,
                        [](Transfer transfer) {
                          transfer.blocks.buffer = Buffer::kInput;
                          return transfer;
                        }),
              "step 1, rank 1: writes the input");
  const Change no_copies = [](Rank, uint32_t, Transfer transfer) -> std::optional<Transfer> {
    if (transfer.kind == Kind::kCopy) return std::nullopt;
    return transfer;
  };
  ExpectFound(Collective::kAllgather, "circulant", 6, no_copies, "sends undefined output block 0");
  ExpectFound(Collective::kReduceScatter, "circulant", 7, no_copies, "sends undefined work");
}

TEST(Checker, FindsWrongOperandsOfAReduction) {
  const auto with = [](Blocks own) {
    return AtRankOne(Kind::kRecvReduce, [own](Transfer transfer) {
      transfer.source = own;
      return transfer;
    });
  };
  const auto found = [&](Blocks own, const char* reason) {
    ExpectFound(Collective::kReduceScatter, "ring", 3, with(own), reason);
  };
  found(Blocks::Run(Buffer::kInput, 0, 2), "different numbers of blocks");
  found(Blocks::Run(Buffer::kInput, 3, 1), "names 1 blocks from block 3 of input, which has 3");
  found(Blocks::Run(Buffer::kWork, 1, 1), "reduces undefined work block 1");
  found(Blocks::Run(Buffer::kInput, 2, 1), "each once");
  const auto shifted = [](Rank, uint32_t, Transfer transfer) -> std::optional<Transfer> {
    if (transfer.kind == Kind::kRecvReduce) transfer.source.first = transfer.blocks.first ^ 1;
    return transfer;
  };
  const Program overlapping =
      Changed(*Make(Collective::kAllreduce, "halving_doubling", 4), shifted);
  ExpectRefused(overlapping, Collective::kAllreduce,
                "reduces onto a source of the same reduction, output block", true);
}

TEST(Checker, FindsWrongScratchSizes) {
  Program work = *Make(Collective::kAlltoall, "bruck", 4);
  work.work_blocks = 7;
  ExpectRefused(work, Collective::kAlltoall, "work_blocks is 7, used are 6");
}

TEST(Checker, FindsMissingAndRepeatedContributions) {
  Program early = *Make(Collective::kAllreduce, "recursive_doubling", 8);
  early.steps = 2;
  ExpectRefused(early, Collective::kAllreduce, "each once");
  const Program twice = Handmade(2, 2, [](const Program&, Rank rank, uint32_t) {
    Step step;
    const Blocks all = Blocks::Run(Buffer::kOutput, 0, 2);
    step.copy(all, Blocks::Run(Buffer::kInput, 0, 2));
    step.send(1 - rank, Blocks::Run(Buffer::kInput, 0, 2));
    step.recv_reduce(1 - rank, all);
    return step;
  });
  // Out of place the second step starts afresh; in place the copies are no-ops, so it adds again.
  EXPECT_TRUE(CheckProgram(twice, Collective::kAllreduce, 0, false).ok());
  ExpectRefused(twice, Collective::kAllreduce, "each once", true);
}

// Every rank adds up all contributions once, but each starts with its own.
TEST(Checker, FindsSumsInDifferentOrder) {
  const Program program = Handmade(3, 2, [](const Program&, Rank rank, uint32_t index) {
    const Blocks input = Blocks::Run(Buffer::kInput, 0, 3);
    const Blocks sum = Blocks::Run(Buffer::kOutput, 0, 3);
    Step step;
    if (index == 0) step.copy(sum, input);
    step.send((rank + 1 + index) % 3, input);
    step.recv_reduce((rank + 2 - index) % 3, sum);
    return step;
  });
  ExpectRefused(program, Collective::kAllreduce, "in another order than on other ranks");
}

TEST(Checker, FindsBlocksInTheWrongPlace) {
  const Change swapped = [](Rank rank, uint32_t, Transfer transfer) -> std::optional<Transfer> {
    if (rank == 2 && transfer.kind == Kind::kRecv) {
      transfer.blocks.first = 1 - transfer.blocks.first;
    }
    return transfer;
  };
  ExpectFound(Collective::kAlltoall, "pairwise", 3, swapped,
              "result: rank 2, output block 0: does not hold the block that belongs there");
}

TEST(Checker, FindsABarrierThatEndsEarly) {
  Program early = *Make(Collective::kBarrier, "dissemination", 5);
  early.steps = 2;
  ExpectRefused(early, Collective::kBarrier, "rank 0 leaves before it knows that rank 1");
}

TEST(Checker, FindsPointToPointWithTheWrongPeer) {
  const auto program = Make(Collective::kSend, "direct", 4, 3);
  EXPECT_TRUE(CheckProgram(*program, Collective::kSend, 3).ok());
  EXPECT_FALSE(CheckProgram(*program, Collective::kRecv, 3).ok());
  ExpectRefused(Changed(*Make(Collective::kSend, "direct", 4, 0),
                        [](Rank, uint32_t, Transfer transfer) -> std::optional<Transfer> {
                          transfer.peer = 2;
                          return transfer;
                        }),
                Collective::kSend, "not one transfer of one block with its peer");
}

// Three ranks are on one host and one on another. The single rank also has the columns of two ranks
// that its host lacks, and from these only cells without elements may be sent.
TEST(Checker, FindsBlocksSentToWhereThereIsNone) {
  const HostLayout layout(HostsOfRanks{0, 0, 0, 1});
  const auto at_rank_zero = [](Kind kind) -> Change {
    return [kind](Rank rank, uint32_t, Transfer transfer) -> std::optional<Transfer> {
      if (rank == 0 && transfer.peer == 3 && transfer.kind == kind) transfer.blocks.first ^= 1;
      return transfer;
    };
  };
  const auto program = [&](Collective collective) {
    return *Make(collective, "host_columns", 4, 0, &layout);
  };
  ExpectRefused(Changed(program(Collective::kAllgather), at_rank_zero(Kind::kRecv)),
                Collective::kAllgather, "sends and receives");
  ExpectRefused(Changed(program(Collective::kAllgather), at_rank_zero(Kind::kSend)),
                Collective::kAllgather, "sends undefined");
  ExpectRefused(Changed(program(Collective::kReduceScatter), at_rank_zero(Kind::kSend)),
                Collective::kReduceScatter, "is not the sum of every rank's contribution");
  const HostLayout uneven(HostsOfRanks{0, 0, 1});
  const auto sends_nothing = Make(Collective::kReduceScatter, "host_columns", 3, 0, &uneven);
  ExpectRefused(
      Changed(*sends_nothing,
              [](Rank rank, uint32_t, Transfer transfer) -> std::optional<Transfer> {
                // Column 1 belongs to rank 1, and has no block of the other host's rank.
                if (rank == 2 && transfer.kind == Kind::kSend && transfer.blocks.first == 2) {
                  transfer.blocks.first = 3;
                }
                return transfer;
              }),
      Collective::kReduceScatter, "reduces what only one of both has");
}

}  // namespace
}  // namespace rocecoll
