// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/syscall.h>
#include <unistd.h>

namespace rocecoll {

// Whether the caller is the process's first thread, the one in which Python runs handlers of
// signals. glibc has gettid() from 2.30 on only.
inline bool IsMainThread() { return syscall(SYS_gettid) == getpid(); }

}  // namespace rocecoll
