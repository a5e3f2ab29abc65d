// SPDX-License-Identifier: Apache-2.0
// Which program runs. A pure function of what every rank knows alike, so all ranks choose the same.
#pragma once

#include <span>
#include <string_view>

#include "base/status.h"
#include "collectives/program.h"

namespace rocecoll {

// Names as in docs/algorithms.md; empty picks by size and hosts, and so does the name of one that
// is for ranks which span hosts where these do not: parts of a group need no option of their own.
// kInvalidArgument for a name that does not exist or cannot do this request.
Result<Program> MakeProgram(const ProgramRequest& request, std::string_view algorithm = {});
// Every algorithm name that MakeProgram takes for this collective (some for some numbers of ranks
// only).
std::span<const std::string_view> AlgorithmNames(Collective collective);

}  // namespace rocecoll
