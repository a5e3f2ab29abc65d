// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/locked_memory.h"

#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>

namespace rocecoll {
namespace {

bool MayIgnoreLimit() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> data{};
  if (syscall(SYS_capget, &header, data.data()) != 0) return false;
  return (data[CAP_TO_INDEX(CAP_IPC_LOCK)].effective & CAP_TO_MASK(CAP_IPC_LOCK)) != 0;
}

std::string InMib(uint64_t bytes) { return std::to_string((bytes + (1 << 20) - 1) >> 20) + " MiB"; }

}  // namespace

LockedMemoryLimit ReadLockedMemoryLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
      MayIgnoreLimit()) {
    return {};
  }
  return {limit.rlim_cur};
}

std::string LockedMemoryProblem(LockedMemoryLimit limit, uint64_t registered_bytes,
                                uint64_t bytes) {
  if (limit.bytes == LockedMemoryLimit::kUnlimited) return "";
  if (registered_bytes <= limit.bytes && bytes <= limit.bytes - registered_bytes) return "";
  return InMib(bytes) + " cannot be registered besides " + InMib(registered_bytes) +
         ", this process may lock " + InMib(limit.bytes) + "; " + LockedMemoryCure();
}

std::string LockedMemoryCure() {
  return "the limit of locked memory is too low: `ulimit -l unlimited`, `* - memlock unlimited` in "
         "/etc/security/limits.conf, LimitMEMLOCK=infinity for a systemd service, `--ulimit "
         "memlock=-1` for a container";
}

}  // namespace rocecoll
