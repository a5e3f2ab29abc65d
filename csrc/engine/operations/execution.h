// SPDX-License-Identifier: Apache-2.0
// One operation running: its lanes step its program independently of each other.
//
// A transfer is always one message, whatever the memory behind its blocks looks like: two ranks may
// lay the same blocks out differently (a wrapped run here, packed scratch there), so pieces of
// local memory mean nothing to the peer. A transfer of several pieces goes through scratch.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/rank.h"
#include "base/time.h"
#include "engine/operations/incoming_reduction.h"
#include "engine/operations/lane_staging.h"
#include "engine/operations/message_token.h"
#include "engine/operations/operation.h"
#include "engine/operations/plan.h"
#include "engine/operations/scratch.h"
#include "engine/operations/segments.h"
#include "messenger/messenger.h"

namespace rocecoll {

// What all executions of a group share.
struct ExecutionContext {
  Messenger& messenger;
  ScratchPool& scratch;
  MemoryDomain& memory;
  Rank rank = 0;
  uint32_t ranks = 1;
  uint32_t max_lanes_in_flight = 1;
};

class Execution {
 public:
  explicit Execution(const ExecutionContext& context) : context_(context) {}
  Execution(const Execution&) = delete;
  Execution& operator=(const Execution&) = delete;

  // `spec` outlives the run. `place` is MessageToken::operation of its messages. An execution is
  // used again for one operation after the other, so that running one allocates nothing.
  void begin(const OperationSpec& spec, Plan plan, const Fingerprint& fingerprint,
             uint64_t tag_operation, uint32_t place);
  // Starts lanes while the lane window, scratch and staged memory allow. True if one started.
  bool start_lanes(Instant now);
  bool lanes_waiting() const { return next_lane_ < plan_.lanes; }
  void on_message_complete(Instant now, const MessageToken& message);
  // Whether steps that have not begun send to `peer`, or receive what has not come from it.
  bool needs(Rank peer) const;
  bool done() const { return lanes_done_ == plan_.lanes && staging_.status().ok(); }
  // Why staged memory failed, if it did: then the operation never becomes done.
  const Status& staging_status() const { return staging_.status(); }
  // When start_lanes() must be called even if no message completes, because a lane waits for its
  // input.
  Instant next_deadline() const { return staging_.next_look(); }
  // Gives all scratch back. Only when no message is outstanding, or after Messenger::fail().
  void end();
  const Fingerprint& fingerprint() const { return fingerprint_; }
  uint64_t tag_operation() const { return tag_operation_; }
  // "1 of 4 parts done, one at step 3 of 5 of ring".
  std::string describe_progress() const;

 private:
  struct Lane {
    bool running = false;
    bool in_step = false;
    bool unpacks = false;  // a plain receive of this step landed in scratch
    uint32_t index = 0;
    uint32_t next_step = 0;  // the one that the lane is in, if any
    // Messages that are not complete, by the last bit of the number of their step: sends of the
    // step before may be left, and receives of the next one may be posted (execution_overlap.cc).
    std::array<uint32_t, 2> sends{};
    std::array<uint32_t, 2> receives{};
    bool sends_may_stay = false;  // sends of this step, when it ends
    uint32_t ahead = 0;           // a bit for each transfer of the next step that is posted
    Step step;
    Step last_step;                    // if there are sends of it
    uint32_t reduces_as_it_comes = 0;  // a bit for each transfer of the step
    std::array<IncomingReduction, Step::kMaxTransfers> reductions;  // theirs
    std::array<BoundBuffer, 3> buffers;
    LocalSlice scratch;
    std::byte* staged = nullptr;  // its part of what is staged (lane_staging.h)
  };
  // Parts of a lane's scratch, as large as lane 0 (the largest) needs them.
  struct ScratchLayout {
    size_t work = 0;    // kWork
    size_t output = 0;  // kOutput where the caller gave none
    size_t input = 0;   // scaled copy of kInput
    size_t step = 0;    // messages of one step
    size_t steps = 1;   // how many of these, used in turn
    size_t total() const { return work + output + input + step * steps; }
  };

  // -- execution_memory.cc
  void announce_memory();
  void withdraw_memory();
  bool in_arena(const std::byte* memory) const;

  void lay_out();
  size_t step_scratch(const Lane& lane) const;
  size_t message_scratch(const Transfer& transfer, const Extent& extent) const;
  size_t message_scratch(const Lane& lane, const Transfer& transfer) const;
  std::byte* scratch_of_step(const Lane& lane, uint32_t number) const;
  void bind(Lane& lane);
  void bind_scratch(Lane& lane);
  void prepare_input(Lane& lane);
  void run_lane(Instant now, uint32_t slot);
  void start_step(Instant now, uint32_t slot);
  void post(Instant now, uint32_t slot, const Step& step, uint32_t number, uint32_t index,
            size_t& scratch_used);
  void finish_step(Lane& lane);
  void finish_lane(Lane& lane);

  // -- execution_reduce.cc
  Intake* reduce_as_it_comes(Lane& lane, uint32_t index, const Extent& extent);
  void reduce(Lane& lane, uint32_t index, const std::byte* slice);
  bool received_is_left(const Transfer& transfer) const { return transfer.peer < context_.rank; }

  // -- execution_overlap.cc
  bool overlaps_steps() const;
  bool may_go_on(const Lane& lane) const;
  void look_ahead(Instant now, uint32_t slot);
  bool may_stay(const Lane& lane, const Step& next, const Transfer& send) const;
  bool may_receive_ahead(const Lane& lane, const Step& next, const Transfer& receive) const;
  bool overlap(const Lane& lane, const Blocks& a, const Blocks& b) const;

  bool has_private_output() const;
  bool needs_input_copy() const { return ScalesInScratch(*spec_, context_.ranks); }
  bool scales_input() const { return ScalesInput(*spec_, context_.ranks); }
  bool divides_output() const;
  BoundBuffer& buffer(Lane& lane, Buffer which) const {
    return lane.buffers[static_cast<size_t>(which)];
  }
  const BoundBuffer& buffer(const Lane& lane, Buffer which) const {
    return lane.buffers[static_cast<size_t>(which)];
  }

  const ExecutionContext& context_;
  const OperationSpec* spec_ = nullptr;
  Plan plan_;
  Fingerprint fingerprint_{};
  uint64_t tag_operation_ = 0;
  uint32_t place_ = 0;
  size_t element_bytes_ = 1;
  bool overlaps_ = false;  // its steps (execution_overlap.cc)
  // Of the caller's memory, where it is large enough to pay; equal if the input is a part of the
  // output.
  RegistrationId input_memory_ = kUnregistered;
  RegistrationId output_memory_ = kUnregistered;
  ScratchLayout layout_;
  LaneStaging staging_;
  uint32_t next_lane_ = 0;
  uint32_t lanes_done_ = 0;
  uint32_t lanes_running_ = 0;
  std::vector<Lane> lanes_;  // slots, used again
};

}  // namespace rocecoll
