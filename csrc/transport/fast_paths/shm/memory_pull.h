// SPDX-License-Identifier: Apache-2.0
// Reads another process's memory (process_vm_readv(2)). A process may do that if it may trace the
// other one. It fails between users, if the other process is in a PID namespace that cannot be
// seen, under seccomp, and under Yama's restrictions unless the other process allows it.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace rocecoll {

// Eight bytes of a program's memory that no other program has at that address.
struct MemoryMark {
  uint64_t address = 0;
  uint64_t value = 0;
};

// False: not all of it could be read, or the memory does not have the mark. The process may have
// executed another program, which has the same number and something else at the same address. So
// each system call reads the mark together with the bytes that are asked for.
bool PullMemory(pid_t process, const MemoryMark& mark, uint64_t address, std::span<std::byte> into);

// Lets processes of the same user read our memory where Yama (kernel.yama.ptrace_scope 1) would let
// only our parents do so.
void AllowPulls();

}  // namespace rocecoll
