// SPDX-License-Identifier: Apache-2.0
// When something happened, in words that people can compare between the logs of several hosts. The
// only use of a clock that is not handed in, as nothing ever depends on it.
#pragma once

#include <string>

#include "base/time.h"

namespace rocecoll {

// The time of day `ago` before now: "14:03:07.250 UTC".
std::string TimeOfDay(Duration ago);

}  // namespace rocecoll
