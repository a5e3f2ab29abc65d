// SPDX-License-Identifier: Apache-2.0
// The caller's memory that all messages of an operation lie in.
#include <span>

#include "engine/operations/execution.h"

namespace rocecoll {

bool Execution::in_arena(const std::byte* memory) const {
  const std::span<std::byte> arena = spec_->staged->arena();
  return memory >= arena.data() && memory < arena.data() + arena.size();
}

// The registration of each piece costs, so all lanes share what is announced here.
void Execution::announce_memory() {
  if (staging_.active()) {
    const std::span<std::byte> arena = spec_->staged->arena();
    const bool worth = staging_.lane_bytes() >= MemoryDomain::kLeastAnnouncedBytes;
    if (worth && !arena.empty()) {
      input_memory_ = output_memory_ = context_.memory.announce(arena, /*writable=*/true);
    }
    return;
  }
  const auto whole = [this](const OperationBuffer& buffer) -> std::span<std::byte> {
    if (buffer.partition.total() * element_bytes_ < MemoryDomain::kLeastAnnouncedBytes) return {};
    const Blocks all = Blocks::Run(Buffer::kInput, 0, buffer.partition.blocks());
    const Extent extent = Measure(buffer.partition, all);
    if (extent.segments != 1) return {};
    return {static_cast<std::byte*>(buffer.data) + extent.first.offset * element_bytes_,
            extent.elements * element_bytes_};
  };
  const auto announce = [this](std::span<std::byte> memory, bool writable) {
    return memory.empty() ? kUnregistered : context_.memory.announce(memory, writable);
  };
  const bool gives_output = GivesOutput(spec_->collective, context_.rank == spec_->root);
  const auto input = whole(spec_->input);
  const auto output = whole(spec_->output);
  output_memory_ = announce(output, !gives_output);
  const bool in_output = !input.empty() && input.data() >= output.data() &&
                         input.data() + input.size() <= output.data() + output.size();
  input_memory_ = in_output ? output_memory_ : announce(input, /*writable=*/false);
}

void Execution::withdraw_memory() {
  const auto withdraw = [this](RegistrationId memory) {
    if (memory != kUnregistered) context_.memory.withdraw(memory);
  };
  if (input_memory_ != output_memory_) withdraw(input_memory_);
  withdraw(output_memory_);
  input_memory_ = output_memory_ = kUnregistered;
}

}  // namespace rocecoll
