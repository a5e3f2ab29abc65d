// SPDX-License-Identifier: Apache-2.0
// Chooses the program to run. This is a pure function of what every rank knows, so all ranks choose
// the same.
#pragma once

#include <span>
#include <string_view>

#include "base/status.h"
#include "collectives/program.h"

namespace rocecoll {

// Names are those of docs/algorithms.md. An empty name picks by size and hosts. So does the name of
// a program for ranks that span hosts, if these ranks do not: parts of a group need no option of
// their own. Returns kInvalidArgument for a name that does not exist or cannot do this request.
Result<Program> MakeProgram(const ProgramRequest& request, std::string_view algorithm = {});
// All algorithm names that MakeProgram accepts for this collective (some of them only for some
// numbers of ranks).
std::span<const std::string_view> AlgorithmNames(Collective collective);

}  // namespace rocecoll
