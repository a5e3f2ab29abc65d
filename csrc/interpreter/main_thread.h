// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/syscall.h>
#include <unistd.h>

namespace rocecoll {

// Whether the caller is the process's first thread, the one in which Python runs handlers of
// signals. gettid() itself came with glibc 2.30.
inline bool IsMainThread() { return syscall(SYS_gettid) == getpid(); }

}  // namespace rocecoll
