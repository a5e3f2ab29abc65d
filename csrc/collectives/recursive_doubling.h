// SPDX-License-Identifier: Apache-2.0
// Allreduce by recursive doubling: in every round, partners at doubling distance exchange all they
// have. ceil(log2 p) rounds for powers of two, two more for other counts (ranks are folded onto a
// power of two first), but the whole vector in each: for small vectors. Of two ranks it is the
// direct exchange.
#pragma once

#include <cstdint>
#include <memory>

#include "collectives/program.h"

namespace rocecoll {

std::unique_ptr<Program> RecursiveDoublingAllreduce(uint32_t ranks);

}  // namespace rocecoll
