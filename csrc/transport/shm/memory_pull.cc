// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/memory_pull.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/descriptor.h"

namespace rocecoll {

bool PullMemory(pid_t process, uint64_t address, std::span<std::byte> into) {
  while (!into.empty()) {
    const iovec local{into.data(), into.size()};
    const iovec remote{reinterpret_cast<void*>(address), into.size()};
    const ssize_t read = ::process_vm_readv(process, &local, 1, &remote, 1, 0);
    if (read <= 0) return false;
    address += static_cast<uint64_t>(read);
    into = into.subspan(static_cast<size_t>(read));
  }
  return true;
}

void AllowPulls() {
  const Descriptor scope(::open("/proc/sys/kernel/yama/ptrace_scope", O_RDONLY | O_CLOEXEC));
  char value = 0;
  if (!scope.valid() || ::read(scope, &value, 1) != 1 || value != '1') return;
  ::prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
}

}  // namespace rocecoll
