// SPDX-License-Identifier: Apache-2.0
// Reading another process's memory, where the system lets us (process_vm_readv(2)): whoever may
// trace it may. Fails between users, where the peer's process cannot be seen, under seccomp, and
// under Yama's restrictions unless the peer allows it.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace rocecoll {

// False: not all of it could be read.
bool PullMemory(pid_t process, uint64_t address, std::span<std::byte> into);

// Lets processes of the same user read ours where Yama (kernel.yama.ptrace_scope 1) would only let
// our parents do so.
void AllowPulls();

}  // namespace rocecoll
