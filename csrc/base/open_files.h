// SPDX-License-Identifier: Apache-2.0
// The limit of open files (RLIMIT_NOFILE).
#pragma once

#include <cstddef>
#include <string>

#include "base/status.h"

namespace rocecoll {

// The message for EMFILE: the limit, about how high it has to be (with a reserve, so that it needs
// to be raised only once), and how to raise it. `missing`: how many files beyond the limit are
// known to be needed.
std::string TooManyOpenFiles(size_t missing);
// kNetwork unless this process can open `count` more files now. Call before anything is opened:
// some missing files would not cause an error, but make everything slower.
Status RequireOpenFiles(size_t count);

}  // namespace rocecoll
