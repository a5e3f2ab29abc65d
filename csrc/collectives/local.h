// SPDX-License-Identifier: Apache-2.0
// Collectives of a single rank: a copy, or nothing.
#pragma once

#include <memory>

#include "collectives/program.h"

namespace rocecoll {

// Any collective but send and recv.
std::unique_ptr<Program> LocalProgram(Collective collective);

}  // namespace rocecoll
