// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cerrno>
#include <cstring>
#include <string>

#include "base/open_files.h"
#include "base/status.h"

namespace rocecoll {

// An error number in words, with the cure where one number has one cause.
inline std::string SystemErrorText(int error) {
  return error == EMFILE ? TooManyOpenFiles(1) : std::strerror(error);
}

// kNetwork: what the system refused, and its reason, as a rule the last call's.
inline Status SystemError(const std::string& what, int error = errno) {
  return Status(StatusCode::kNetwork, what + ": " + SystemErrorText(error));
}

}  // namespace rocecoll
