// SPDX-License-Identifier: Apache-2.0
#include "collectives/local.h"

#include "collectives/function_program.h"

namespace rocecoll {
namespace {

Step CopyStep(const ProgramFacts&, Rank, uint32_t) {
  Step step;
  step.copy(Blocks::Run(Buffer::kOutput, 0, 1), Blocks::Run(Buffer::kInput, 0, 1));
  return step;
}

Step NothingStep(const ProgramFacts&, Rank, uint32_t) { return {}; }

}  // namespace

std::unique_ptr<Program> LocalProgram(Collective collective) {
  ROCECOLL_CHECK(!IsPointToPoint(collective));
  const CollectiveTraits& traits = TraitsOf(collective);
  const bool copies = traits.input != Contents::kNothing && traits.output != Contents::kNothing;
  return FunctionProgram::Make({.name = "local", .steps = 1}, copies ? CopyStep : NothingStep);
}

}  // namespace rocecoll
