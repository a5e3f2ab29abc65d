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

// Where in a program's memory there are eight bytes that no other program has there.
struct MemoryMark {
  uint64_t address = 0;
  uint64_t value = 0;
};

// False: not all of it could be read, or it is not the memory that has the mark. The process may
// have executed another program since, with the same number and whatever is at the same address;
// each call of the system reads the mark and what is asked for out of one memory.
bool PullMemory(pid_t process, const MemoryMark& mark, uint64_t address, std::span<std::byte> into);

// Lets processes of the same user read ours where Yama (kernel.yama.ptrace_scope 1) would only let
// our parents do so.
void AllowPulls();

}  // namespace rocecoll
