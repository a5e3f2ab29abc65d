// SPDX-License-Identifier: Apache-2.0
// Errors that people read begin with whose they are. The layers below the engine do not say it:
// their words become a part of a longer message.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace rocecoll {

inline constexpr std::string_view kNamePrefix = "rocecoll: ";

inline std::string Named(std::string_view text) { return std::string(kNamePrefix).append(text); }

[[gnu::cold]] inline Status NamedStatus(StatusCode code, std::string_view text) {
  return Status(code, Named(text));
}

}  // namespace rocecoll
