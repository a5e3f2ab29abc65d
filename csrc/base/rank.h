// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace rocecoll {

// A rank within a group. Messages to people show global ranks; only the engine maps between the
// two.
using Rank = uint32_t;
inline constexpr Rank kNoRank = UINT32_MAX;

}  // namespace rocecoll
