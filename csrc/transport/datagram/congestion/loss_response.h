// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace rocecoll {

// What a queue's overflow leaves of whatever caused it: CUBIC's beta (RFC 9438 section 4.6), and
// BBR.Beta (draft-ietf-ccwg-bbr-06 section 2.8).
inline constexpr double kLossKept = 0.7;
// Rounds until the losses that a round causes have shown, counted from that round (shaper_test).
inline constexpr uint32_t kLossShows = 3;

}  // namespace rocecoll
