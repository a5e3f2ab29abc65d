// SPDX-License-Identifier: Apache-2.0
#include "engine/operations/execution.h"

#include <cstring>
#include <string>
#include <utility>

#include "base/arithmetic.h"
#include "collectives/reduce.h"
#include "engine/operations/needs.h"

namespace rocecoll {
namespace {

constexpr size_t kScratchAlignment = 64;

size_t AlignUp(size_t bytes) { return RoundUp(bytes, kScratchAlignment); }

// As collectives/collective.h defines it.
Partition WorkPartition(const OperationSpec& spec, const Partition& input, const Partition& output,
                        uint32_t work_blocks) {
  if (work_blocks == 0) return {};
  if (Reduces(spec.collective)) {
    ROCECOLL_CHECK(input.blocks() == work_blocks);
    return input.packed();
  }
  const uint64_t largest = std::max(input.max_block(), output.max_block());
  return Partition::Strided(work_blocks, largest, largest);
}

// A buffer of the caller with the blocks, and their order, that the program knows.
Partition AsSeenBy(const Program& program, const OperationSpec& spec, Buffer buffer, Rank rank,
                   Partition callers) {
  const bool is_root = rank == spec.root;
  if (ContentsOf(buffer, spec.collective, is_root) != Contents::kVector) return callers;
  if (!program.order.empty()) return callers.ordered(program.order);
  return program.blocks == callers.blocks() ? callers : callers.recut(program.blocks);
}

void Copy(std::byte* to, const std::byte* from, size_t bytes) {
  if (to != from && bytes > 0) std::memmove(to, from, bytes);
}

}  // namespace

void Execution::begin(const OperationSpec& spec, Plan plan, const Fingerprint& fingerprint,
                      uint64_t tag_operation, uint32_t place) {
  spec_ = &spec;
  plan_ = std::move(plan);
  fingerprint_ = fingerprint;
  tag_operation_ = tag_operation;
  place_ = place;
  element_bytes_ = SizeOf(spec.type);
  overlaps_ = overlaps_steps();
  next_lane_ = 0;
  lanes_done_ = 0;
  lanes_running_ = 0;
  // A last lane that would run alone joins the others.
  const uint32_t at_once = std::max(context_.max_lanes_in_flight, 1u);
  const size_t slots = plan_.lanes <= at_once + 1 ? plan_.lanes : at_once;
  if (lanes_.size() < slots) lanes_.resize(slots);
  if (spec.staged != nullptr) staging_.begin(spec, context_.rank, plan_.lanes);
  announce_memory();
  lay_out();
}

bool Execution::has_private_output() const {
  return HasScratchOutput(spec_->collective, context_.rank == spec_->root);
}

bool Execution::divides_output() const {
  return Reduces(spec_->collective) && spec_->reduce_op == ReduceOp::kAvg && context_.ranks > 1 &&
         !scales_input() && !has_private_output();
}

void Execution::lay_out() {
  Lane& lane = lanes_.front();
  lane.index = 0;
  bind(lane);
  layout_ = {};
  layout_.work = AlignUp(buffer(lane, Buffer::kWork).partition.total() * element_bytes_);
  if (spec_->collective == Collective::kBarrier) {
    layout_.input = kScratchAlignment;
    layout_.output = kScratchAlignment;
  } else {
    const size_t input = AlignUp(buffer(lane, Buffer::kInput).partition.total() * element_bytes_);
    if (has_private_output()) layout_.output = input;
    if (needs_input_copy()) layout_.input = input;
  }
  if (overlaps_) layout_.steps = 2;
  for (uint32_t i = 0; i < plan_.program.steps; ++i) {
    lane.step = plan_.program.step(context_.rank, i);
    layout_.step = std::max(layout_.step, step_scratch(lane));
  }
}

size_t Execution::step_scratch(const Lane& lane) const {
  size_t bytes = 0;
  for (const Transfer& transfer : lane.step) {
    if (Posts(transfer)) bytes += message_scratch(lane, transfer);
  }
  return bytes;
}

size_t Execution::message_scratch(const Lane& lane, const Transfer& transfer) const {
  const Partition& partition = buffer(lane, transfer.blocks.buffer).partition;
  return message_scratch(transfer, Measure(partition, transfer.blocks));
}

std::byte* Execution::scratch_of_step(const Lane& lane, uint32_t number) const {
  return lane.scratch.data + number % layout_.steps * layout_.step;
}

size_t Execution::message_scratch(const Transfer& transfer, const Extent& extent) const {
  const bool needed = transfer.kind == Transfer::Kind::kRecvReduce || extent.segments > 1;
  return needed ? AlignUp(extent.elements * element_bytes_) : 0;
}

void Execution::bind(Lane& lane) {
  const auto bind_user = [&](Buffer which, const OperationBuffer& from, RegistrationId memory) {
    auto* base = static_cast<std::byte*>(from.data);
    Partition part = LanePartition(*spec_, from.partition, lane.index, plan_.lanes);
    if (staging_.active()) {
      base = staging_.part(which, lane.staged);
      part = part.packed();
      if (!in_arena(lane.staged)) memory = kUnregistered;
    }
    buffer(lane, which) = {
        base, AsSeenBy(plan_.program, *spec_, which, context_.rank, std::move(part)), memory};
  };
  bind_user(Buffer::kInput, spec_->input, input_memory_);
  bind_user(Buffer::kOutput, spec_->output, output_memory_);
  BoundBuffer& input = buffer(lane, Buffer::kInput);
  BoundBuffer& output = buffer(lane, Buffer::kOutput);
  if (spec_->collective == Collective::kBarrier) {
    input.partition = Partition::Even(1, 1);
    output.partition = Partition::Even(1, 1);
  } else if (has_private_output()) {
    output.partition = input.partition.packed();
  }
  buffer(lane, Buffer::kWork) = {
      nullptr, WorkPartition(*spec_, input.partition, output.partition, plan_.program.work_blocks),
      kUnregistered};
}

void Execution::bind_scratch(Lane& lane) {
  std::byte* next = scratch_of_step(lane, 0) + layout_.steps * layout_.step;
  const auto take = [&](Buffer which, size_t bytes) {
    if (bytes == 0) return;
    buffer(lane, which).base = next;
    buffer(lane, which).registration = lane.scratch.registration;
    next += bytes;
  };
  take(Buffer::kWork, layout_.work);
  take(Buffer::kOutput, layout_.output);
  if (!needs_input_copy()) take(Buffer::kInput, layout_.input);
}

// What is scaled first is a copy: the output where it holds the whole vector, else scratch. The
// program then runs in place on it.
void Execution::prepare_input(Lane& lane) {
  if (!scales_input()) return;
  BoundBuffer& input = buffer(lane, Buffer::kInput);
  BoundBuffer scaled = buffer(lane, Buffer::kOutput);
  if (needs_input_copy()) {
    scaled = {lane.scratch.data + layout_.total() - layout_.input, input.partition.packed(),
              lane.scratch.registration};
  }
  const Blocks all = Blocks::Run(Buffer::kInput, 0, plan_.program.blocks);
  ForEachPair(scaled, all, input, all, element_bytes_,
              [&](std::byte* to, const std::byte* from, uint64_t elements) {
                Copy(to, from, elements * element_bytes_);
                if (spec_->reduce_op == ReduceOp::kAvg) {
                  Divide(spec_->type, to, context_.ranks, elements);
                } else {
                  Scale(spec_->type, to, spec_->premul_factor, elements);
                }
              });
  input = scaled;
}

bool Execution::start_lanes(Instant now) {
  bool started = false;
  while (next_lane_ < plan_.lanes) {
    uint32_t slot = 0;
    while (slot < lanes_.size() && lanes_[slot].running) ++slot;
    if (slot == lanes_.size()) break;
    if (staging_.active() && !staging_.ready(now, next_lane_)) break;
    Lane& lane = lanes_[slot];
    if (layout_.total() > 0) {
      lane.scratch = context_.scratch.take(layout_.total(), lanes_running_ == 0);
      if (lane.scratch.data == nullptr) break;
    }
    if (staging_.active()) lane.staged = staging_.memory(next_lane_);
    lane.running = true;
    lane.in_step = false;
    lane.index = next_lane_++;
    lane.next_step = 0;
    lane.sends = lane.receives = {};
    lane.sends_may_stay = false;
    lane.ahead = 0;
    ++lanes_running_;
    if (lane.index > 0 || staging_.active()) bind(lane);  // lay_out() has bound the first lane
    bind_scratch(lane);
    prepare_input(lane);
    started = true;
    run_lane(now, slot);
  }
  return started;
}

void Execution::on_message_complete(Instant now, const MessageToken& message) {
  ROCECOLL_CHECK(message.lane < lanes_.size() && lanes_[message.lane].running);
  Lane& lane = lanes_[message.lane];
  uint32_t& left = (message.sends ? lane.sends : lane.receives)[message.odd_step];
  ROCECOLL_CHECK(left > 0);
  if (--left > 0) return;
  run_lane(now, message.lane);
  if (lanes_waiting()) start_lanes(now);
}

// Steps on until the lane waits for messages or ends.
void Execution::run_lane(Instant now, uint32_t slot) {
  Lane& lane = lanes_[slot];
  while (may_go_on(lane)) {
    if (lane.in_step) finish_step(lane);
    if (lane.next_step == plan_.program.steps) {
      finish_lane(lane);
      return;
    }
    start_step(now, slot);
  }
}

void Execution::start_step(Instant now, uint32_t slot) {
  Lane& lane = lanes_[slot];
  if (lane.sends[1 - lane.next_step % 2] > 0) lane.last_step = lane.step;
  lane.step = plan_.program.step(context_.rank, lane.next_step);
  lane.in_step = true;
  lane.unpacks = false;
  lane.reduces_as_it_comes = 0;
  for (const Transfer& transfer : lane.step) {
    if (transfer.kind != Transfer::Kind::kCopy) continue;
    ForEachPair(buffer(lane, transfer.blocks.buffer), transfer.blocks,
                buffer(lane, transfer.source.buffer), transfer.source, element_bytes_,
                [&](std::byte* to, const std::byte* from, uint64_t elements) {
                  Copy(to, from, elements * element_bytes_);
                });
  }
  const uint32_t ahead = std::exchange(lane.ahead, 0);
  size_t scratch_used = 0;
  for (uint32_t i = 0; i < lane.step.size(); ++i) {
    if (!Posts(lane.step[i])) continue;
    if ((ahead >> i & 1) == 0) {
      post(now, slot, lane.step, lane.next_step, i, scratch_used);
    } else if (const size_t bytes = message_scratch(lane, lane.step[i]); bytes > 0) {
      scratch_used += bytes;
      lane.unpacks = lane.unpacks || lane.step[i].kind == Transfer::Kind::kRecv;
    }
  }
  if (overlaps_) look_ahead(now, slot);
}

// `step` is the lane's or the one after it; `number` is its number.
void Execution::post(Instant now, uint32_t slot, const Step& step, uint32_t number, uint32_t index,
                     size_t& scratch_used) {
  Lane& lane = lanes_[slot];
  const Transfer& transfer = step[index];
  const BoundBuffer& memory = buffer(lane, transfer.blocks.buffer);
  const Extent extent = Measure(memory.partition, transfer.blocks);
  // Where a rank cannot know the others' sizes, empty messages are sent, too. They show that a rank
  // has called this, and with which sizes; without them the others would wait for ever.
  if (extent.elements == 0 && plan_.elements > 0) return;
  const size_t bytes = extent.elements * element_bytes_;
  const size_t in_scratch = message_scratch(transfer, extent);
  LocalSlice slice;
  if (in_scratch > 0) {
    ROCECOLL_CHECK(scratch_used + in_scratch <= layout_.step);
    slice = {scratch_of_step(lane, number) + scratch_used, bytes, lane.scratch.registration};
    scratch_used += in_scratch;
  } else {
    slice = {memory.base + extent.first.offset * element_bytes_, bytes, memory.registration};
  }
  const Tag tag{tag_operation_, number, SlotOf(step, index, lane.index)};
  const bool sends = transfer.kind == Transfer::Kind::kSend;
  const uint64_t token = MessageToken{place_, slot, sends, number % 2 == 1}.packed();
  ++(sends ? lane.sends : lane.receives)[number % 2];
  if (sends) {
    if (in_scratch > 0) {
      std::byte* to = slice.data;
      ForEachSegment(memory.partition, transfer.blocks, [&](const ElementRange& range) {
        Copy(to, memory.base + range.offset * element_bytes_, range.count * element_bytes_);
        to += range.count * element_bytes_;
      });
    }
    context_.messenger.send(now, transfer.peer, tag, fingerprint_, slice, token);
    return;
  }
  if (in_scratch > 0 && transfer.kind == Transfer::Kind::kRecv && number == lane.next_step) {
    lane.unpacks = true;
  }
  if (transfer.kind == Transfer::Kind::kRecvReduce && number == lane.next_step) {
    slice.intake = reduce_as_it_comes(lane, index, extent);
  }
  context_.messenger.recv(now, transfer.peer, tag, fingerprint_, slice, token);
}

// Everything that the step receives has arrived: spreads what was received packed, then reduces.
// Walks through scratch exactly as start_step() did.
void Execution::finish_step(Lane& lane) {
  const auto for_each_received = [&](auto&& visit) {
    size_t scratch_used = 0;
    for (uint32_t i = 0; i < lane.step.size(); ++i) {
      const Transfer& transfer = lane.step[i];
      const std::byte* received = scratch_of_step(lane, lane.next_step) + scratch_used;
      if (Posts(transfer)) {
        const size_t bytes = message_scratch(lane, transfer);
        scratch_used += bytes;
        if (bytes == 0) continue;
      }
      visit(i, received);
    }
  };
  if (lane.unpacks) {
    for_each_received([&](uint32_t index, const std::byte* received) {
      const Transfer& transfer = lane.step[index];
      if (transfer.kind != Transfer::Kind::kRecv) return;
      const BoundBuffer& memory = buffer(lane, transfer.blocks.buffer);
      ForEachSegment(memory.partition, transfer.blocks, [&](const ElementRange& range) {
        Copy(memory.base + range.offset * element_bytes_, received, range.count * element_bytes_);
        received += range.count * element_bytes_;
      });
    });
  }
  for_each_received([&](uint32_t index, const std::byte* received) {
    if (lane.step[index].kind == Transfer::Kind::kRecvReduce) reduce(lane, index, received);
  });
  lane.in_step = false;
  ++lane.next_step;
}

void Execution::finish_lane(Lane& lane) {
  if (divides_output()) {
    const BoundBuffer& output = buffer(lane, Buffer::kOutput);
    const Blocks all = Blocks::Run(Buffer::kOutput, 0, output.partition.blocks());
    ForEachSegment(output.partition, all, [&](const ElementRange& range) {
      Divide(spec_->type, output.base + range.offset * element_bytes_, context_.ranks, range.count);
    });
  }
  if (lane.scratch.data != nullptr) context_.scratch.give_back(lane.scratch);
  lane.scratch = {};
  lane.running = false;
  --lanes_running_;
  ++lanes_done_;
  if (staging_.active()) staging_.store(lane.index, std::exchange(lane.staged, nullptr));
}

bool Execution::needs(Rank peer) const {
  for (const Lane& lane : lanes_) {
    if (!lane.running) continue;
    const uint32_t next = lane.next_step + (lane.in_step ? 1 : 0);
    const LanePlace place{lane.index, next, lane.in_step ? lane.ahead : 0};
    if (NeedsPeer(plan_.program, context_.rank, peer, tag_operation_, place, context_.messenger)) {
      return true;
    }
  }
  return LanesNeedPeer(plan_, context_.rank, peer, tag_operation_, next_lane_, context_.messenger);
}

void Execution::end() {
  for (Lane& lane : lanes_) {
    if (lane.scratch.data != nullptr) context_.scratch.give_back(lane.scratch);
    lane.scratch = {};
    lane.staged = nullptr;
    lane.running = false;
  }
  withdraw_memory();
  plan_ = {};
  lanes_running_ = 0;
  if (staging_.active()) staging_.end();
}

std::string Execution::describe_progress() const {
  std::string text =
      std::to_string(lanes_done_) + " of " + std::to_string(plan_.lanes) + " parts done";
  for (const Lane& lane : lanes_) {
    if (!lane.running) continue;
    text += ", one at step " + std::to_string(lane.next_step + 1) + " of " +
            std::to_string(plan_.program.steps) + " of " + std::string(plan_.program.name);
    break;
  }
  if (next_deadline() != kNever) text += ", the next waits for this rank's device";
  return text;
}

}  // namespace rocecoll
