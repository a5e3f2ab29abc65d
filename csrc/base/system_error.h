// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cerrno>
#include <cstring>
#include <string>

#include "base/open_files.h"
#include "base/status.h"

namespace rocecoll {

// An error number in words, with a remedy where the number has a single cause.
inline std::string SystemErrorText(int error) {
  return error == EMFILE ? TooManyOpenFiles(1) : std::strerror(error);
}

// A kNetwork status: what the system refused, and why: by default the error of the last call.
inline Status SystemError(const std::string& what, int error = errno) {
  return Status(StatusCode::kNetwork, what + ": " + SystemErrorText(error));
}

}  // namespace rocecoll
