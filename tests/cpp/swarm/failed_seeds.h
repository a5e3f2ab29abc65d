// SPDX-License-Identifier: Apache-2.0
// Seeds that have found a bug. They stay what they stand for as long as `DrawPlan` draws whatever
// is new after everything else.
#pragma once

#include <array>
#include <cstdint>

namespace rocecoll {

inline constexpr std::array<uint64_t, 2> kFailedSeeds = {
    799,   // no progress for 20 s after a pause of six, which the round trip remembered
    2263,  // a living rank given up after a cut, as no probe went out that the path could carry
};

}  // namespace rocecoll
