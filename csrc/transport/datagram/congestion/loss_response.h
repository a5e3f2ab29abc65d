// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace rocecoll {

// What is left of whatever made a queue overflow: CUBIC's beta (RFC 9438 section 4.6).
inline constexpr double kLossKept = 0.7;
// Rounds that losses take until they show, counted from the one that caused them.
inline constexpr uint32_t kLossShows = 3;

}  // namespace rocecoll
