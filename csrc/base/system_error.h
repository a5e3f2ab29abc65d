// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cerrno>
#include <cstring>
#include <string>

#include "base/status.h"

namespace rocecoll {

// kNetwork: what the system refused, and its reason, as a rule the last call's.
inline Status SystemError(const std::string& what, int error = errno) {
  return Status(StatusCode::kNetwork, what + ": " + std::strerror(error));
}

}  // namespace rocecoll
