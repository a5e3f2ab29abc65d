// SPDX-License-Identifier: Apache-2.0
// Registered memory is locked, and the system limits what a process may lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace rocecoll {

struct LockedMemoryLimit {
  static constexpr uint64_t kUnlimited = UINT64_MAX;
  uint64_t bytes = kUnlimited;
};

// The limit of this process; kUnlimited if it may ignore the limit (CAP_IPC_LOCK).
LockedMemoryLimit ReadLockedMemoryLimit();

// Explains why `bytes` cannot be registered in addition to `registered_bytes`, and the cure; empty
// if they can.
std::string LockedMemoryProblem(LockedMemoryLimit limit, uint64_t registered_bytes, uint64_t bytes);

// "the limit of locked memory is too low: ...".
std::string LockedMemoryCure();

}  // namespace rocecoll
