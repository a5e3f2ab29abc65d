// SPDX-License-Identifier: Apache-2.0
// Send and recv: one step with one transfer. Each side runs its own program; a program says what
// any rank other than `peer` does.
#pragma once

#include <cstdint>
#include <memory>

#include "collectives/program.h"

namespace rocecoll {

std::unique_ptr<Program> DirectSend(uint32_t ranks, Rank peer);
std::unique_ptr<Program> DirectRecv(uint32_t ranks, Rank peer);

}  // namespace rocecoll
