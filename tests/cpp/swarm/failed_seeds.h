// SPDX-License-Identifier: Apache-2.0
// Seeds that have found a bug. They stay what they stand for as long as `DrawPlan` draws whatever
// is new after everything else.
#pragma once

#include <array>
#include <cstdint>

namespace rocecoll {

inline constexpr std::array<uint64_t, 4> kFailedSeeds = {
    799,   // no progress for 20 s after a pause of six, which the round trip remembered
    2263,  // a living rank given up after a cut, as no probe went out that the path could carry
    // A living rank given up after an outage, as the first packet that got through was a small one,
    // and as what an outage had lost still counted 16 s later.
    2459713812124287,
    2459713811977097,
};

}  // namespace rocecoll
