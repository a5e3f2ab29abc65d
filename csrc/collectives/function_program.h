// SPDX-License-Identifier: Apache-2.0
// The one implementation of Program: the facts of an algorithm, and its step function.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "collectives/program.h"

namespace rocecoll {

struct ProgramFacts {
  std::string_view name;
  uint32_t ranks = 1;
  Rank root = 0;
  uint32_t steps = 0;
  uint32_t work_blocks = 0;
  uint32_t max_reduce_blocks = 0;
};

// How reductions that work in the output begin: a no-op where the output is the input.
inline void CopyWholeInput(uint32_t ranks, Step& step) {
  step.copy(Blocks::Run(Buffer::kOutput, 0, ranks), Blocks::Run(Buffer::kInput, 0, ranks));
}

using StepFunction = Step (*)(const ProgramFacts& facts, Rank rank, uint32_t index);

class FunctionProgram final : public Program {
 public:
  FunctionProgram(const ProgramFacts& facts, StepFunction step_function)
      : facts_(facts), step_function_(step_function) {}

  static std::unique_ptr<Program> Make(const ProgramFacts& facts, StepFunction step_function) {
    return std::make_unique<FunctionProgram>(facts, step_function);
  }

  std::string_view name() const override { return facts_.name; }
  uint32_t ranks() const override { return facts_.ranks; }
  uint32_t steps() const override { return facts_.steps; }
  uint32_t work_blocks() const override { return facts_.work_blocks; }
  uint32_t max_reduce_blocks() const override { return facts_.max_reduce_blocks; }
  Step step(Rank rank, uint32_t index) const override {
    ROCECOLL_CHECK(rank < facts_.ranks && index < facts_.steps);
    return step_function_(facts_, rank, index);
  }

 private:
  const ProgramFacts facts_;
  const StepFunction step_function_;
};

}  // namespace rocecoll
