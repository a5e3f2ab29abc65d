// SPDX-License-Identifier: Apache-2.0
// System calls that the system refuses, as under seccomp or a security module.
#pragma once

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <span>

namespace rocecoll {

// All of these hold for this thread and those that it makes, for ever.
inline void Filter(std::span<sock_filter> code) {
  const sock_fprog filter{static_cast<unsigned short>(code.size()), code.data()};
  ASSERT_EQ(::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
  ASSERT_EQ(::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter), 0);
}

// From now on the system answers so when this calls `number`.
inline void Forbid(long number) {
  auto code = std::to_array<sock_filter>(
      {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
       BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(number), 0, 1),
       BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
       BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)});
  Filter(code);
}

// And so where argument number `argument` has this flag.
inline void RefuseFlag(long number, size_t argument, uint32_t flag, int error) {
  const auto at = static_cast<uint32_t>(offsetof(seccomp_data, args) + argument * sizeof(uint64_t));
  auto code = std::to_array<sock_filter>(
      {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
       BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(number), 0, 3),
       BPF_STMT(BPF_LD | BPF_W | BPF_ABS, at), BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, flag, 0, 1),
       BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<uint32_t>(error)),
       BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)});
  Filter(code);
}

// As before Linux 6.3.
inline constexpr uint32_t kNoexecSeal = 0x8;  // MFD_NOEXEC_SEAL
inline void KnowNoNoexecSeal() { RefuseFlag(SYS_memfd_create, 1, kNoexecSeal, EINVAL); }

// A greeting is the only message of shared memory, and is told from those of UDP by its flag.
inline void RefuseGreetings(int error) { RefuseFlag(SYS_sendmsg, 2, MSG_NOSIGNAL, error); }

}  // namespace rocecoll
