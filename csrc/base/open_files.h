// SPDX-License-Identifier: Apache-2.0
// The limit of open files (RLIMIT_NOFILE), which a process meets where it opens one too many.
#pragma once

#include <cstddef>
#include <string>

#include "base/status.h"

namespace rocecoll {

// What to say of EMFILE: the limit, about how high it has to be (some to spare, so that it needs to
// be raised but once), and how. `missing` are known to be needed beyond the limit.
std::string TooManyOpenFiles(size_t missing);
// kNetwork unless this process can open `count` more now. To be asked before anything is opened:
// some of what may be missing would not fail, but make everything slower.
Status RequireOpenFiles(size_t count);

}  // namespace rocecoll
