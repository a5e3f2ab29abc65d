// SPDX-License-Identifier: Apache-2.0
// Status values as Python exceptions: rocecoll._core.Error and one subclass for each code.
#pragma once

#include <pybind11/pybind11.h>

#include <string>

#include "base/status.h"

namespace rocecoll::python {

void BindErrors(pybind11::module_& module);

// Sets the exception for `status`, which is not ok, and throws it. Needs the GIL.
[[noreturn]] void Raise(const Status& status);
[[noreturn]] void RaiseInvalid(const std::string& what);

inline void RaiseUnlessOk(const Status& status) {
  if (!status.ok()) Raise(status);
}

}  // namespace rocecoll::python
