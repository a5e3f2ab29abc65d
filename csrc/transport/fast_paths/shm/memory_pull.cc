// SPDX-License-Identifier: Apache-2.0
#include "transport/fast_paths/shm/memory_pull.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>

#include "base/descriptor.h"

namespace rocecoll {

bool PullMemory(pid_t process, const MemoryMark& mark, uint64_t address,
                std::span<std::byte> into) {
  constexpr auto kMark = static_cast<ssize_t>(sizeof(mark.value));
  do {
    uint64_t found = 0;
    const std::array<iovec, 2> local{{{&found, sizeof(found)}, {into.data(), into.size()}}};
    const std::array<iovec, 2> remote{{{reinterpret_cast<void*>(mark.address), sizeof(found)},
                                       {reinterpret_cast<void*>(address), into.size()}}};
    const ssize_t read = ::process_vm_readv(process, local.data(), 2, remote.data(), 2, 0);
    if (read < kMark || found != mark.value) return false;
    if (read == kMark && !into.empty()) return false;
    address += static_cast<uint64_t>(read - kMark);
    into = into.subspan(static_cast<size_t>(read - kMark));
  } while (!into.empty());
  return true;
}

void AllowPulls() {
  const Descriptor scope(::open("/proc/sys/kernel/yama/ptrace_scope", O_RDONLY | O_CLOEXEC));
  char value = 0;
  if (!scope.valid() || ::read(scope, &value, 1) != 1 || value != '1') return;
  ::prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
}

}  // namespace rocecoll
