// SPDX-License-Identifier: Apache-2.0
#include "collectives/proof/checker.h"

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "collectives/proof/symbolic_memory.h"

namespace rocecoll {
namespace {

using Kind = Transfer::Kind;

bool IsReceive(const Transfer& transfer) {
  return transfer.kind == Kind::kRecv || transfer.kind == Kind::kRecvReduce;
}

std::string_view ToString(Buffer buffer) {
  return buffer == Buffer::kInput ? "input" : buffer == Buffer::kOutput ? "output" : "work";
}

// Transfer number `ordinal` among the transfers of `step` from or to `peer` in one direction, or
// null.
const Transfer* Find(const Step& step, Rank peer, bool receive, uint32_t ordinal) {
  for (const Transfer& transfer : step) {
    const bool match = receive ? IsReceive(transfer) : transfer.kind == Kind::kSend;
    if (match && transfer.peer == peer && ordinal-- == 0) return &transfer;
  }
  return nullptr;
}

// Runs the steps of all ranks in lockstep.
class SymbolicRun {
 public:
  SymbolicRun(const Program& program, Collective collective, Rank root, bool in_place)
      : program_(program),
        ranks_(program.ranks),
        memory_(program, collective, root, in_place),
        steps_(ranks_),
        marks_(memory_.size()),
        totals_(ranks_),
        is_peer_(static_cast<size_t>(ranks_) * ranks_) {}

  Status run() {
    for (index_ = 0; index_ < program_.steps; ++index_) {
      if (Status status = step(); !status.ok()) return status;
    }
    if (work_used_ != program_.work_blocks) {
      return {StatusCode::kInternal, "work_blocks is " + std::to_string(program_.work_blocks) +
                                         ", used are " + std::to_string(work_used_)};
    }
    return memory_.check_result();
  }

  CheckReport report() const {
    CheckReport report{.steps = busy_steps_, .reduced_at_once = reduce_used_};
    for (Rank rank = 0; rank < ranks_; ++rank) {
      report.blocks_sent = std::max(report.blocks_sent, totals_[rank].blocks);
      report.messages_sent = std::max(report.messages_sent, totals_[rank].messages);
      const auto first = is_peer_.begin() + static_cast<ptrdiff_t>(rank) * ranks_;
      report.peers =
          std::max(report.peers, static_cast<uint32_t>(std::count(first, first + ranks_, true)));
    }
    return report;
  }

 private:
  // The last step, counted from 1, in which a block was touched in each way.
  struct Marks {
    uint32_t sent = 0;
    uint32_t received = 0;
    uint32_t source = 0;  // the number of the pass
  };
  struct Totals {
    uint64_t blocks = 0;
    uint32_t messages = 0;
  };

  Status fail(Rank rank, const std::string& what) const {
    return {StatusCode::kInternal,
            "step " + std::to_string(index_) + ", rank " + std::to_string(rank) + ": " + what};
  }
  Status fail_block(Rank rank, const Blocks& blocks, uint32_t i, const std::string& what) const {
    const uint32_t block = blocks.at(i, memory_.blocks(rank, blocks.buffer));
    return fail(rank, what + " " + std::string(ToString(blocks.buffer)) + " block " +
                          std::to_string(block));
  }
  size_t locate(Rank rank, const Blocks& blocks, uint32_t i) const {
    return memory_.locate(rank, blocks.buffer, blocks.at(i, memory_.blocks(rank, blocks.buffer)));
  }

  Status step();
  Status check_transfer(Rank rank, const Transfer& transfer);
  Status check_blocks(Rank rank, const Blocks& blocks);
  void mark_sources(Rank rank, const Transfer& transfer);
  bool overwrites_source(Rank rank, const Transfer& transfer, uint32_t i) const;
  Status copy(Rank rank, const Transfer& transfer);
  Status mark_in_flight(Rank rank, const Transfer& transfer);
  Status deliver(Rank rank);
  Status reduce(Rank rank, const Symbol*& arrived);

  const Program& program_;
  const uint32_t ranks_;
  SymbolicMemory memory_;
  std::vector<Step> steps_;      // of the current step, by rank
  std::vector<Marks> marks_;     // by memory location
  std::vector<Symbol> scratch_;  // what the RecvReduces of the current step received, in order
  std::vector<Totals> totals_;   // by rank
  std::vector<bool> is_peer_;    // [rank][peer]
  uint32_t index_ = 0;
  uint32_t passes_ = 0;  // the number of copies and reductions
  uint32_t busy_steps_ = 0;
  uint32_t work_used_ = 0;
  uint32_t reduce_used_ = 0;
};

// Runs the phases of rule 2. As mark_in_flight() has checked, what is sent keeps its value until
// the reductions.
Status SymbolicRun::step() {
  uint64_t sends = 0;
  uint64_t receives = 0;
  for (Rank rank = 0; rank < ranks_; ++rank) {
    steps_[rank] = program_.step(rank, index_);
    for (const Transfer& transfer : steps_[rank]) {
      if (Status status = check_transfer(rank, transfer); !status.ok()) return status;
      if (transfer.kind == Kind::kCopy) {
        if (Status status = copy(rank, transfer); !status.ok()) return status;
      }
      sends += transfer.kind == Kind::kSend ? 1 : 0;
      receives += IsReceive(transfer) ? 1 : 0;
    }
    uint32_t reduced = 0;
    for (const Transfer& transfer : steps_[rank]) {
      if (Status status = mark_in_flight(rank, transfer); !status.ok()) return status;
      if (transfer.kind == Kind::kRecvReduce) reduced += transfer.blocks.count;
    }
    reduce_used_ = std::max(reduce_used_, reduced);
  }
  scratch_.clear();
  for (Rank rank = 0; rank < ranks_; ++rank) {
    if (Status status = deliver(rank); !status.ok()) return status;
  }
  // Every receive has a matching send, so a send is left over if the numbers differ.
  if (sends != receives) {
    return {StatusCode::kInternal, "step " + std::to_string(index_) + ": " +
                                       std::to_string(sends - receives) +
                                       " sends are received by nobody"};
  }
  busy_steps_ += sends > 0 ? 1 : 0;
  const Symbol* arrived = scratch_.data();
  for (Rank rank = 0; rank < ranks_; ++rank) {
    if (Status status = reduce(rank, arrived); !status.ok()) return status;
  }
  return {};
}

Status SymbolicRun::check_transfer(Rank rank, const Transfer& transfer) {
  if (Status status = check_blocks(rank, transfer.blocks); !status.ok()) return status;
  if (transfer.kind != Kind::kSend && transfer.blocks.buffer == Buffer::kInput) {
    return fail(rank, "writes the input");
  }
  if (transfer.kind == Kind::kCopy || transfer.kind == Kind::kRecvReduce) {
    if (Status status = check_blocks(rank, transfer.source); !status.ok()) return status;
    if (transfer.source.count != transfer.blocks.count) {
      return fail(rank, "copies or reduces between different numbers of blocks");
    }
  }
  if (transfer.kind != Kind::kCopy && (transfer.peer >= ranks_ || transfer.peer == rank)) {
    return fail(rank, "has no peer " + std::to_string(transfer.peer));
  }
  return {};
}

Status SymbolicRun::check_blocks(Rank rank, const Blocks& blocks) {
  const uint32_t available = memory_.blocks(rank, blocks.buffer);
  if (blocks.count == 0 || blocks.run == 0) return fail(rank, "names no blocks");
  const uint64_t last = blocks.first +
                        static_cast<uint64_t>((blocks.count - 1) / blocks.run) * blocks.stride +
                        blocks.run;
  if (blocks.first >= available || blocks.count > available ||
      last > std::numeric_limits<uint32_t>::max()) {
    return fail(rank, "names " + std::to_string(blocks.count) + " blocks from block " +
                          std::to_string(blocks.first) + " of " +
                          std::string(ToString(blocks.buffer)) + ", which has " +
                          std::to_string(available));
  }
  if (blocks.buffer == Buffer::kWork) {
    for (uint32_t i = 0; i < blocks.count; ++i) {
      work_used_ = std::max(work_used_, blocks.at(i, available) + 1);
    }
  }
  return {};
}

void SymbolicRun::mark_sources(Rank rank, const Transfer& transfer) {
  ++passes_;
  for (uint32_t i = 0; i < transfer.source.count; ++i) {
    marks_[locate(rank, transfer.source, i)].source = passes_;
  }
}

// A pass over memory may write each block onto its own source, but not onto the source of another
// block.
bool SymbolicRun::overwrites_source(Rank rank, const Transfer& transfer, uint32_t i) const {
  const size_t to = locate(rank, transfer.blocks, i);
  return to != locate(rank, transfer.source, i) && marks_[to].source == passes_;
}

Status SymbolicRun::copy(Rank rank, const Transfer& transfer) {
  mark_sources(rank, transfer);
  for (uint32_t i = 0; i < transfer.blocks.count; ++i) {
    const size_t from = locate(rank, transfer.source, i);
    const size_t to = locate(rank, transfer.blocks, i);
    if (from == to) continue;
    if (overwrites_source(rank, transfer, i)) {
      return fail_block(rank, transfer.blocks, i, "copies onto a source of the same copy,");
    }
    if (!memory_[from].defined()) {
      return fail_block(rank, transfer.source, i, "copies undefined");
    }
    memory_[to] = memory_[from];
  }
  return {};
}

Status SymbolicRun::mark_in_flight(Rank rank, const Transfer& transfer) {
  if (transfer.kind == Kind::kCopy) return {};
  const uint32_t now = index_ + 1;
  for (uint32_t i = 0; i < transfer.blocks.count; ++i) {
    const size_t location = locate(rank, transfer.blocks, i);
    Marks& marks = marks_[location];
    if (transfer.kind == Kind::kSend) {
      if (marks.received == now) {
        return fail_block(rank, transfer.blocks, i, "sends and receives");
      }
      if (!memory_[location].defined()) {
        return fail_block(rank, transfer.blocks, i, "sends undefined");
      }
      marks.sent = now;
      if (memory_[location] != kNothing) ++totals_[rank].blocks;
      continue;
    }
    if (transfer.kind == Kind::kRecvReduce) continue;
    if (marks.received == now) return fail_block(rank, transfer.blocks, i, "receives twice");
    if (marks.sent == now) return fail_block(rank, transfer.blocks, i, "sends and receives");
    marks.received = now;
  }
  if (transfer.kind == Kind::kSend) {
    ++totals_[rank].messages;
  }
  is_peer_[static_cast<size_t>(rank) * ranks_ + transfer.peer] = true;
  return {};
}

Status SymbolicRun::deliver(Rank rank) {
  const Step& step = steps_[rank];
  for (const Transfer& receive : step) {
    if (!IsReceive(receive)) continue;
    uint32_t ordinal = 0;
    while (Find(step, receive.peer, true, ordinal) != &receive) ++ordinal;
    const Transfer* const send = Find(steps_[receive.peer], rank, false, ordinal);
    if (send == nullptr) {
      return fail(
          rank, "waits for a message that rank " + std::to_string(receive.peer) + " does not send");
    }
    if (send->blocks.count != receive.blocks.count) {
      return fail(rank, "expects " + std::to_string(receive.blocks.count) + " blocks, rank " +
                            std::to_string(receive.peer) + " sends " +
                            std::to_string(send->blocks.count));
    }
    for (uint32_t i = 0; i < receive.blocks.count; ++i) {
      const Symbol& sent = memory_[locate(receive.peer, send->blocks, i)];
      if (receive.kind == Kind::kRecv) {
        memory_[locate(rank, receive.blocks, i)] = sent;
      } else {
        scratch_.push_back(sent);
      }
    }
  }
  return {};
}

Status SymbolicRun::reduce(Rank rank, const Symbol*& arrived) {
  for (const Transfer& transfer : steps_[rank]) {
    if (transfer.kind != Kind::kRecvReduce) continue;
    mark_sources(rank, transfer);
    for (uint32_t i = 0; i < transfer.blocks.count; ++i) {
      if (overwrites_source(rank, transfer, i)) {
        return fail_block(rank, transfer.blocks, i, "reduces onto a source of the same reduction,");
      }
      const Symbol own = memory_[locate(rank, transfer.source, i)];
      const Symbol other = *arrived++;
      if (!own.defined() || !other.defined()) {
        return fail_block(rank, transfer.source, i, "reduces undefined");
      }
      if ((own == kNothing) != (other == kNothing)) {
        return fail_block(rank, transfer.blocks, i, "reduces what only one of both has, into");
      }
      if (own == kNothing) {
        memory_[locate(rank, transfer.blocks, i)] = kNothing;
        continue;
      }
      Symbol& sum = memory_[locate(rank, transfer.blocks, i)];
      sum = rank < transfer.peer ? Combine(own, other) : Combine(other, own);
    }
  }
  return {};
}

// A barrier moves no data: every rank has to hear, if only indirectly, of every rank's entry. Runs
// after the transfers are known to match.
Status CheckBarrier(const Program& program) {
  const uint32_t ranks = program.ranks;
  using Set = std::vector<bool>;
  std::vector<Set> known(ranks, Set(ranks));
  for (Rank rank = 0; rank < ranks; ++rank) known[rank][rank] = true;
  for (uint32_t index = 0; index < program.steps; ++index) {
    std::vector<Set> next = known;
    for (Rank rank = 0; rank < ranks; ++rank) {
      for (const Transfer& transfer : program.step(rank, index)) {
        if (!IsReceive(transfer)) continue;
        for (Rank other = 0; other < ranks; ++other) {
          if (known[transfer.peer][other]) next[rank][other] = true;
        }
      }
    }
    known = std::move(next);
  }
  for (Rank rank = 0; rank < ranks; ++rank) {
    const auto missing = std::find(known[rank].begin(), known[rank].end(), false);
    if (missing != known[rank].end()) {
      return {StatusCode::kInternal,
              "result: rank " + std::to_string(rank) + " leaves before it knows that rank " +
                  std::to_string(missing - known[rank].begin()) + " has entered"};
    }
  }
  return {};
}

// The two sides of a message run different programs, so each is checked separately.
Result<CheckReport> CheckPointToPoint(const Program& program, Collective collective, Rank peer) {
  const bool sends = collective == Collective::kSend;
  for (Rank rank = 0; rank < program.ranks; ++rank) {
    if (rank == peer) continue;
    const Step step = program.steps == 1 ? program.step(rank, 0) : Step();
    const bool right = step.size() == 1 && step[0].peer == peer &&
                       step[0].kind == (sends ? Kind::kSend : Kind::kRecv) &&
                       step[0].blocks.buffer == (sends ? Buffer::kInput : Buffer::kOutput) &&
                       step[0].blocks.first == 0 && step[0].blocks.count == 1;
    if (!right) {
      return Status(StatusCode::kInternal, "rank " + std::to_string(rank) +
                                               ": not one transfer of one block with its peer");
    }
  }
  const uint32_t sent = sends ? 1 : 0;
  return CheckReport{.steps = 1, .blocks_sent = sent, .messages_sent = sent, .peers = 1};
}

}  // namespace

Result<CheckReport> CheckProgram(const Program& program, Collective collective, Rank root,
                                 bool in_place) {
  if (IsPointToPoint(collective)) {
    return CheckPointToPoint(program, collective, root);
  }
  SymbolicRun run(program, collective, root, in_place);
  Status status = run.run();
  if (status.ok() && collective == Collective::kBarrier) status = CheckBarrier(program);
  if (!status.ok()) return status;
  return run.report();
}

}  // namespace rocecoll
