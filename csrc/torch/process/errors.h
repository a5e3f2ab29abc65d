// SPDX-License-Identifier: Apache-2.0
// The core's Status values as the exceptions that torch turns into Python's, and that of a process
// which has no more than a copy of the runtime.
#pragma once

#include <exception>
#include <string>

#include "base/status.h"
#include "runtime/runtime_owner.h"

namespace rocecoll::torch_adapter {

// kInvalidArgument -> ValueError, kUnsupported -> NotImplementedError (a RuntimeError), kNetwork ->
// DistNetworkError, all others -> DistBackendError. `status` is not ok.
std::exception_ptr MakeException(const Status& status);

[[noreturn]] void Throw(const Status& status);

// Throws in a forked child.
Progress& ProgressOf(const Runtime& runtime);

}  // namespace rocecoll::torch_adapter
