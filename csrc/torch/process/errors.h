// SPDX-License-Identifier: Apache-2.0
// The core's Status values as exceptions, by interpreter/exception_table.h, and the failure of a
// process that has only a copy of the runtime.
#pragma once

#include <exception>
#include <string>

#include "base/status.h"
#include "runtime/runtime_owner.h"

namespace rocecoll::torch_adapter {

// torch's exceptions, which torch's bindings turn into Python's: ValueError, NotImplementedError (a
// RuntimeError), DistNetworkError for what is an OSError, and DistBackendError for all others.
// `status` is not ok.
std::exception_ptr MakeException(const Status& status);
[[noreturn]] void Throw(const Status& status);

// The same in functions of our own module, whose exceptions torch's bindings may not see:
// ValueError or RuntimeError.
[[noreturn]] void Raise(const Status& status);

template <typename T>
T ValueOrRaise(Result<T> result) {
  if (!result.ok()) Raise(result.status());
  return result.take();
}

// Throws in a forked child.
Progress& ProgressOf(const Runtime& runtime);

}  // namespace rocecoll::torch_adapter
