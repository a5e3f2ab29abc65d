// SPDX-License-Identifier: Apache-2.0
// rocecoll._core.Memory: memory to communicate, as a buffer of bytes.
#pragma once

#include <pybind11/pybind11.h>

namespace rocecoll::python {

void BindMemory(pybind11::module_& module);

}  // namespace rocecoll::python
